package pages

import (
	"fmt"
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/gateway/progress"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/words"
)

// pageRefresh is the number of seconds after which a browser without scripts asks for the wake page again.
const pageRefresh = 3

// Wake is the page that shows the progress of a wake-up.
type Wake struct {
	// ID and Name are the workspace's, StatusURL where the page polls its status, and Home the list of
	// all workspaces.
	ID, Name, StatusURL, Home string
	// Back, WakeURL and Main are the same as in [Asleep]: if the workspace is put to sleep meanwhile, the wake page
	// becomes that page.
	Back, WakeURL, Main string
	// Status is the current status.
	Status progress.Status
}

// Clock is the time since the wake-up began, as minutes:seconds, for browsers without scripts.
func (p *Wake) Clock() string {
	return fmt.Sprintf("%d:%02d", p.Status.Elapsed/60, p.Status.Elapsed%60)
}

// Helps are the ways to help if the workspace fails meanwhile.
func (p *Wake) Helps() []Help { return helps(p.ID, p.Home) }

// ShowWake shows the page. It polls the status and reloads itself when the workspace is ready. It wakes nothing itself, but
// offers a button when the workspace sleeps again. Without scripts it reloads every few seconds.
func ShowWake(w http.ResponseWriter, r *http.Request, p *Wake) error {
	return layout.Show(w, r, http.StatusBadGateway, web.Page{
		Title:   words.Of("wake.title", words.Values{"Name": p.Name}),
		Content: "wake.html", Refresh: pageRefresh, Data: p, Leads: p.Main,
	})
}
