// Package pages shows the pages that people see instead of the workspace: the wake page, the limit
// page, the page of a failed workspace, and messages.
//
// It owns their templates, and which text of package words they show. It must not know when a page
// is shown, or look at a workspace, a session or a setting: the caller passes the contents in.
package pages

import (
	"embed"
	"html/template"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

//go:embed templates/*.html templates/wake.js
var files embed.FS

// layout renders the pages.
var layout = func() *web.Layout {
	script, err := files.ReadFile("templates/wake.js")
	if err != nil {
		panic(err) // the file is embedded: the build would have failed
	}
	return web.NewLayout(files, string(script), template.FuncMap{
		"doing": doingText,
		"idle":  func(w problem.RunningWorkspace) words.Text { return idleText(w) },
	})
}()

// ShowMessage shows a message with a link to home, the list of all workspaces.
func ShowMessage(w http.ResponseWriter, r *http.Request, status int, m *web.Message, home string) error {
	return layout.ShowMessage(w, r, status, m, home)
}

// failed is the data of the page for a workspace in ERROR. Step is the step that failed, if the reason tells which.
type failed struct {
	*web.Message
	Step   *progress.Step
	Reason workspace.ErrorReason
}

// Help is a way to help with a failure, and its link.
type Help struct {
	Action progress.Action
	Main   bool // the first one for its action
	web.Link
}

// helps are everything that a person can do about a failed workspace, the best first. They are all at home, the list of
// all workspaces.
func helps(id, home string) []Help {
	page := home + "#/w/" + id
	return []Help{
		{progress.ChooseImage, true, web.Link{URL: page + "/edit", Text: words.Of("page.failed.image", nil)}},
		{progress.ChooseImage, false, web.Link{URL: page, Text: words.Of("page.try_again", nil)}}, // its page has the button
		{progress.TellAdministrator, true, web.Link{URL: page + "/report", Text: words.Of("page.failed.administrator", nil)}},
	}
}

// ShowFailed shows why the workspace with an id cannot be opened, and what to do. The first button does that.
func ShowFailed(w http.ResponseWriter, r *http.Request, f *progress.Failure, id, home string) error {
	var links []web.Link
	for _, help := range helps(id, home) {
		if help.Action == f.Action {
			links = append(links, help.Link)
		}
	}
	page := &failed{Step: f.Step, Reason: f.Reason, Message: &web.Message{
		Heading: f.Heading,
		Text:    words.Of("wake.failed.text", nil),
		Remedy:  f.Remedy,
		Links:   append(links, web.HomeLink(home)),
	}}
	return layout.Show(w, r, http.StatusBadGateway, web.Page{Title: page.Heading, Content: "failed.html", Data: page})
}
