package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/words"
)

// maxCommands is how many commands of a user this process runs at the same time, and maxWords how many
// words one has.
const (
	maxCommands = 16
	maxWords    = 1000
)

// execWorkspace is POST /workspaces/{id}/exec {"command": […]}: it runs a command in the container of one
// of the user's own workspaces, also for an administrator. The answer is JSON, an object a line, as the
// command prints: {"stdout": …} or {"stderr": …}, in the end {"exit_code": n}, or {"problem": …} when it
// is not known how the command ends. It refuses with 409 when no container runs.
func (c *call) execWorkspace() error {
	var in struct {
		Command []string `json:"command"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	n := len(in.Command)
	hasNul := func(s string) bool { return strings.IndexByte(s, 0) >= 0 }
	if n == 0 || n > maxWords || in.Command[0] == "" || slices.ContainsFunc(in.Command, hasNul) {
		return problem.InvalidField("command", "problem.command", words.Values{"Max": maxWords})
	}
	if err := c.mayExec(); err != nil {
		return err
	}
	if !c.commands.take(c.user.ID, maxCommands) {
		p := problem.Commands.With("problem.limit_commands", words.Values{"Limit": maxCommands})
		p.Limit = maxCommands
		return p
	}
	defer c.commands.give(c.user.ID)
	c.fromMemory = true
	return c.exec(in.Command)
}

// mayExec returns why the workspace is not one of the user's own, or nil.
func (c *call) mayExec() error {
	ctx, cancel := context.WithTimeout(c.r.Context(), c.DatabaseTimeout)
	defer cancel()
	_, err := c.Service.Get(ctx, c.self(), c.id)
	return err
}

// exec runs the command for as long as the client, the session and this configuration live.
func (c *call) exec(command []string) error {
	ctx, cancel := context.WithCancel(c.r.Context())
	defer cancel()
	out := &commandOutput{
		w: c.w, control: http.NewResponseController(c.w), cancel: cancel, ended: c.grant.Ended(),
	}
	if !c.grant.Attach(&out.binding, out) {
		return auth.ErrNoSession
	}
	defer out.binding.Detach()
	go func() {
		select {
		case <-c.Stopping:
			cancel()
		case <-ctx.Done():
		}
	}()
	stdout, stderr := &printed{to: out, name: "stdout"}, &printed{to: out, name: "stderr"}
	code, err := c.Exec(ctx, c.id, command, stdout, stderr)
	if err == nil {
		err = errors.Join(stdout.end(), stderr.end())
	}
	if err == nil {
		return out.last(map[string]any{"exit_code": code})
	}
	p := execProblem(ctx, err)
	if !out.begun {
		return p
	}
	if p.Cause != nil {
		c.Logger.Warn("it is not known how a command ends", zap.String("workspace", string(c.id)), zap.Error(err))
	}
	return out.last(map[string]any{"problem": p})
}

// execProblem is why it is not known how a command ends.
func execProblem(ctx context.Context, err error) *problem.Problem {
	switch {
	case errors.Is(err, backend.ErrNotFound):
		return problem.NotRunning.With("problem.not_running", nil)
	case ctx.Err() != nil:
		return problem.CommandLost.With("problem.command_goes_on", nil)
	}
	p := problem.CommandLost.With("problem.engine", nil)
	p.Cause = err
	return p
}

// commandOutput is the answer of a running command. One goroutine uses it, but for End.
type commandOutput struct {
	w       http.ResponseWriter
	control *http.ResponseController
	cancel  context.CancelFunc
	binding auth.Stream
	ended   <-chan struct{} // of the session
	begun   bool
}

// End implements [auth.Ender].
func (o *commandOutput) End() {
	o.cancel()
	_ = o.control.SetWriteDeadline(time.Unix(1, 0))
}

// send sends one line.
func (o *commandOutput) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if !o.begun {
		o.begun = true
		h := o.w.Header()
		h.Set("Content-Type", "application/x-ndjson")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Accel-Buffering", "no")
	}
	// A client that takes nothing is dropped.
	err = o.control.SetWriteDeadline(time.Now().Add(streamWriteTimeout))
	if err != nil && !errors.Is(err, http.ErrNotSupported) {
		return err
	}
	select {
	case <-o.ended: // perhaps before the deadline above, which replaced that of End
		return auth.ErrNoSession
	default:
	}
	if _, err := o.w.Write(append(line, '\n')); err != nil {
		return err
	}
	return o.control.Flush()
}

// last sends the last line. An answer that has begun cannot report an error.
func (o *commandOutput) last(v any) error {
	_ = o.send(v)
	return nil
}

// printed is one of a command's streams. It keeps a character together whose bytes come apart; what is no
// UTF-8 becomes U+FFFD.
type printed struct {
	to   *commandOutput
	name string
	rest []byte
}

// Write implements [io.Writer].
func (p *printed) Write(b []byte) (int, error) {
	text := append(p.rest, b...)
	whole := len(text)
	for i := 1; i < utf8.UTFMax && i <= len(text); i++ {
		if at := len(text) - i; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	p.rest = append([]byte(nil), text[whole:]...)
	if whole == 0 {
		return len(b), nil
	}
	return len(b), p.say(text[:whole])
}

// end sends what is left of a character that does not come any more.
func (p *printed) end() error {
	if len(p.rest) == 0 {
		return nil
	}
	return p.say(p.rest)
}

func (p *printed) say(text []byte) error {
	return p.to.send(map[string]string{p.name: strings.ToValidUTF8(string(text), "\ufffd")})
}
