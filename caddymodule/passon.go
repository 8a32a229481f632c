package codehub

import (
	"net/http"
	"slices"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// passOnAfter is how long a request waits until the configuration at which it has arrived has started.
const passOnAfter = 10 * time.Second

// passOn lets the running configuration answer a request that has arrived at this configuration, which fails to start.
// Caddy starts the apps of a configuration in any order. So in a reload servers may accept before this app finds out,
// for example, that PostgreSQL refuses a new password. It reports whether the request is answered.
func (a *App) passOn(w http.ResponseWriter, r *http.Request) bool {
	select {
	case <-a.started:
		return false
	default:
	}
	running := runningServer(r)
	if running == nil {
		return false
	}
	patience := time.NewTimer(passOnAfter)
	defer patience.Stop()
	select {
	case <-a.started:
		return false
	case <-r.Context().Done():
		return false
	case <-a.failed:
	case <-patience.C:
	}
	running.ServeHTTP(w, r)
	return true
}

// runningServer returns the server of the running configuration that listens on the same address as the request's own
// server, if there is such a server and it is a different one. Their names prove nothing, because the Caddyfile assigns
// names in the order of the listeners.
func runningServer(r *http.Request) (found *caddyhttp.Server) {
	own, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	app, err := caddy.ActiveContext().AppIfConfigured("http")
	if own == nil || err != nil {
		return nil
	}
	for _, running := range app.(*caddyhttp.App).Servers {
		if running == own || !slices.ContainsFunc(own.Listen, func(at string) bool { return slices.Contains(running.Listen, at) }) {
			continue
		}
		if found != nil {
			return nil // two servers have become one
		}
		found = running
	}
	return found
}
