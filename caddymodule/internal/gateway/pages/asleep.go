package pages

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
)

// Asleep is the page for a workspace that sleeps and that nobody has asked for: one of its own
// pages was loaded again by itself.
type Asleep struct {
	// Name is the workspace's, Back the address that was loaded, and Home the list of all
	// workspaces. WakeURL takes the form that wakes the workspace and leads back.
	Name, Back, Home, WakeURL string
	// Main is the origin of the main site, where the limit is shown that may forbid it.
	Main string
}

// Title is the heading.
func (p *Asleep) Title() explain.Text {
	return explain.Text{En: p.Name + " is asleep", Ko: p.Name + web.Particle(p.Name, "이", "가") + " 잠들어 있습니다"}
}

// ShowAsleep shows the page, with a button that wakes the workspace.
func ShowAsleep(w http.ResponseWriter, r *http.Request, p *Asleep) error {
	return layout.Show(w, r, http.StatusServiceUnavailable, web.Page{Title: p.Title(), Content: "asleep.html", Data: p, Leads: p.Main})
}
