package codehub

import (
	"context"
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"

	"github.com/codehub/gateway/caddymodule/internal/web"
)

// heldLook is how often a process that is about to end checks whether it still holds requests.
const heldLook = 50 * time.Millisecond

// drain begins the end of a process (SPEC 5). The process gives up the leadership immediately, so that another process
// leads with its own settings. It keeps serving for shutdown_delay. Without that setting it keeps serving while it
// holds requests, for half of the grace period at most. Every answer that begins meanwhile asks its client to come back
// over another connection ([web.ReconnectWriter]). A reload does not end the process, which continues with another
// configuration.
//
// The later steps wait until drain is done. Only then are event streams and the requests that are still held ended, and
// only then does quiesce begin.
type drain struct{ app *App }

// Handle is called by Caddy when the configuration begins to stop.
func (d drain) Handle(context.Context, caddy.Event) error {
	if !caddy.Exiting() {
		return nil
	}
	c := d.app.Coordinator()
	c.Resign()
	servers, err := d.app.context.AppIfConfigured("http")
	if err != nil {
		return nil // nothing is served
	}
	h := servers.(*caddyhttp.App)
	if delay := time.Duration(h.ShutdownDelay); delay > 0 {
		h.ShutdownDelay = 0 // Caddy would wait once more, after the listeners were closed
		time.Sleep(delay)
		return nil
	}
	for end := time.Now().Add(time.Duration(h.GracePeriod) / 2); c.Activator.Held() > 0 && time.Now().Before(end); {
		time.Sleep(heldLook)
	}
	return nil
}

// askToReconnect asks the client of a request to reconnect ([web.AskToReconnect]) while the process ends.
func askToReconnect(w http.ResponseWriter, r *http.Request) {
	if caddy.Exiting() {
		web.AskToReconnect(w, r)
	}
}

// Interface guard.
var _ caddyevents.Handler = drain{}
