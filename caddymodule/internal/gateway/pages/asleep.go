package pages

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/words"
)

// Asleep is the page for a sleeping workspace that the request does not wake. There are three reasons: a page of the
// workspace reloaded itself, the owner put the workspace to sleep while the page waited, or the request sent a form.
type Asleep struct {
	// Name is the workspace's, Back the requested address, and Home the list of all workspaces.
	// WakeURL accepts the form that wakes the workspace and leads back.
	Name, Back, Home, WakeURL string
	// Why is why it sleeps, or why nothing has woken it.
	Why words.Text
	// Main is the origin of the main site, which shows a limit that forbids the wake-up.
	Main string
}

// Title is the heading.
func (p *Asleep) Title() words.Text {
	return words.Of("page.asleep.title", words.Values{"Name": p.Name})
}

// ShowAsleep shows the page, with a button that wakes the workspace.
func ShowAsleep(w http.ResponseWriter, r *http.Request, status int, p *Asleep) error {
	return layout.Show(w, r, status, web.Page{
		Title: p.Title(), Content: "asleep.html", Data: p, Leads: p.Main,
	})
}
