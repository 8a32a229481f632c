package api

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Containers runs commands in the containers of workspaces and inspects them; see
// [backend.Executor] and [backend.Inspector]. Only commands count as use. *coordinator.Coordinator
// implements it.
type Containers interface {
	Exec(ctx context.Context, id workspace.ID, command backend.Command, stdout, stderr io.Writer) (exitCode int, err error)
	Logs(ctx context.Context, id workspace.ID, lines int) (string, error)
	Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error
	Stats(ctx context.Context, id workspace.ID) (backend.Stats, error)
	// HomeDisk returns how many bytes are free on the disk of the homes, or -1 if that is not known.
	HomeDisk(ctx context.Context) int64
	// ImageSizes returns the sizes, in bytes, of those images that the engine already has. It does not wait long.
	ImageSizes(ctx context.Context, references []string) map[string]int64
}

// The number of log lines with which an answer begins.
const (
	defaultLines = 200
	maxLines     = 10_000
)

// workspaceLogs is GET /workspaces/{id}/logs?lines&follow. It answers with the last lines that the container of one of
// the user's own workspaces has printed. Administrators, too, see only their own, because some applications print a
// password there. With follow=true the answer continues until the container ends. It refuses with 409 if there is no
// container, and with 429 if the session already has [maxStreams] streams open.
func (c *call) workspaceLogs() error {
	lines, err := c.number("lines", maxLines)
	if err != nil {
		return err
	}
	follow, err := c.flag("follow")
	if err != nil {
		return err
	}
	if _, err := c.find(c.self()); err != nil {
		return err
	}
	c.fromMemory = true
	n := int(cmp.Or(lines, defaultLines))
	first := n
	if follow || c.r.Method == http.MethodHead {
		first = 0 // only checks that there is a container: Follow begins with the lines
	}
	asking, cancel := context.WithTimeout(c.r.Context(), c.DatabaseTimeout)
	defer cancel()
	text, err := c.Containers.Logs(asking, c.id, first)
	if err != nil {
		return containerProblem(err)
	}
	ctx, out, done, err := c.live("text/plain; charset=utf-8")
	if err != nil {
		return err
	}
	defer done()
	if !follow || c.r.Method == http.MethodHead {
		_ = out.write([]byte(text)) // fails only when the client has disconnected
		return nil
	}
	if err := c.takeStream(); err != nil {
		return err
	}
	defer c.streams.give(c.grant.Session())
	// An answer that has begun cannot report an error.
	if out.write(nil) == nil {
		p := &printed{say: func(text string) error { return out.write([]byte(text)) }}
		_ = errors.Join(c.Containers.Follow(ctx, c.id, n, p), p.end())
	}
	return nil
}

// takeStream counts a stream of the session, or refuses it if the session has too many.
func (c *call) takeStream() error {
	if c.streams.take(c.grant.Session(), maxStreams) {
		return nil
	}
	c.fromMemory = true
	p := problem.Streams.With("problem.limit_streams", words.Values{"Limit": maxStreams})
	p.Limit, p.RetryAfter = maxStreams, refusedStream
	return p
}

// find returns the workspace as an actor sees it.
func (c *call) find(a service.Actor) (workspace.Workspace, error) {
	ctx, cancel := context.WithTimeout(c.r.Context(), c.DatabaseTimeout)
	defer cancel()
	return c.Service.Get(ctx, a, c.id)
}

// workspaceStats is GET /workspaces/{id}/stats. It answers with the resources that the running container uses, and with
// the ports that listen in it, except the application's own port. It refuses with 409 when no container runs.
func (c *call) workspaceStats() error {
	w, err := c.find(c.actor())
	if err != nil {
		return err
	}
	c.fromMemory = true
	s, err := c.Containers.Stats(c.r.Context(), c.id)
	if err != nil {
		return containerProblem(err)
	}
	own := 0
	if _, port, err := net.SplitHostPort(w.Endpoint); err == nil {
		own, _ = strconv.Atoi(port)
	}
	url := func(port int) string { return c.at.PortURL(c.id, port) }
	free := c.Containers.HomeDisk(c.r.Context())
	return sendJSON(c.w, http.StatusOK, v1.StatsOf(s, w.Home, free, own, url))
}

// containerProblem translates an error of a container.
func containerProblem(err error) error {
	if errors.Is(err, backend.ErrNotFound) {
		return problem.NotRunning.With("problem.not_running", nil)
	}
	p := problem.Engine.With("problem.engine_away", nil)
	p.Cause = err
	return p
}
