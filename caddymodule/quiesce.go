package codehub

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
)

// firstRequestWait is how long a server that a reload replaces waits for the first request of an
// accepted connection: a few round trips.
const firstRequestWait = 500 * time.Millisecond

// quiesce keeps a reload from breaking connections. It does the same for a stop while another process shares the port.
// Suppose that a server accepts a connection just before it shuts down, and the first request comes just after that.
// The server would then close the connection without an answer. So the old servers first stop accepting, while the new
// servers accept already, and shut down a moment later.
//
// Caddy's grace period is meant for a process that ends. When it is over, a server closes WebSockets over HTTP/3. After
// a reload they stay open for streamCloseDelay, like other WebSockets.
//
// Some connections may still wait in the kernel when the old server stops accepting. If net.ipv4.tcp_migrate_req is on,
// the kernel moves them to the new server's socket. Otherwise it resets them.
type quiesce struct{ ctx caddy.Context }

// quiesceFirst arranges that for the configuration of ctx.
func quiesceFirst(ctx caddy.Context) error {
	eventsApp, err := ctx.App("events")
	if err != nil {
		return err
	}
	if err := eventsApp.(*caddyevents.App).On("stopping", quiesce{ctx}); err != nil {
		return fmt.Errorf("subscribing to the end of the configuration: %w", err)
	}
	return nil
}

// Caddy calls Handle when it begins to stop the configuration. Handle delays the stop.
func (q quiesce) Handle(context.Context, caddy.Event) error {
	app, err := q.ctx.AppIfConfigured("http")
	if err != nil {
		return nil // nothing listens
	}
	old := app.(*caddyhttp.App)
	next, err := caddy.ActiveContext().AppIfConfigured("http")
	reload := err == nil && next != app
	if !reload && !caddy.Exiting() {
		return nil // no other configuration takes over
	}
	if reload && old.GracePeriod > 0 { // without one, the server waits forever
		old.GracePeriod = max(old.GracePeriod, caddy.Duration(streamCloseDelay))
	}
	stopped := false
	for _, server := range old.Servers {
		for _, l := range server.Listeners() {
			// A socket file is the same for both configurations, and closing it removes it.
			if _, tcp := l.Addr().(*net.TCPAddr); tcp && l.Close() == nil {
				stopped = true
			}
		}
	}
	if stopped {
		time.Sleep(firstRequestWait)
	}
	return nil
}

// Interface guard.
var _ caddyevents.Handler = quiesce{}
