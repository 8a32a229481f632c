package api

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/logkey"
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
// is not known how the command ends. It refuses with 409 when no container runs. A workspace that dozes goes
// on before, for which it needs a place as for a start: 429 when there is none.
func (c *call) execWorkspace() error {
	var in struct {
		Command []*string `json:"command"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	command, ok := commandOf(in.Command)
	if !ok {
		return problem.InvalidField("command", "problem.command", words.Values{"Max": maxWords})
	}
	w, err := c.find(c.self())
	if err != nil {
		return err
	}
	if !c.commands.take(c.user.ID, maxCommands) {
		p := problem.Commands.With("problem.limit_commands", words.Values{"Limit": maxCommands})
		p.Limit = maxCommands
		return p
	}
	defer c.commands.give(c.user.ID)
	revisions := c.ifMatch()
	if err := c.thaw(w, c.self().If(revisions)); err != nil {
		return err
	}
	if !w.DozeAt.IsZero() {
		revisions = nil // it had one of them; the end of the doze has given it another
	}
	if err := c.auditExec(command[0], revisions); err != nil {
		return err
	}
	c.fromMemory = true
	return c.exec(command)
}

// commandOf returns the words of a command, if they can be one.
func commandOf(given []*string) (command []string, ok bool) {
	for _, word := range given {
		if word == nil || strings.IndexByte(*word, 0) >= 0 {
			return nil, false
		}
		command = append(command, *word)
	}
	n := len(command)
	return command, n > 0 && n <= maxWords && command[0] != ""
}

// exec runs the command for as long as the client, the session and this configuration live.
func (c *call) exec(command []string) error {
	ctx, out, done, err := c.live("application/x-ndjson")
	if err != nil {
		return err
	}
	defer done()
	stdout, stderr := &printed{say: out.sends("stdout")}, &printed{say: out.sends("stderr")}
	code, err := c.Containers.Exec(ctx, c.id, command, stdout, stderr)
	for thawing := c.thawing(ctx); errors.Is(err, backend.ErrFrozen); {
		if err := thawing(); err != nil { // nothing has begun
			return err
		}
		code, err = c.Containers.Exec(ctx, c.id, command, stdout, stderr)
	}
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
		c.Logger.Warn("it is not known how a command ends", zap.String(logkey.Workspace, string(c.id)), zap.Error(err))
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

// sends returns what sends text as a field with that name.
func (o *liveOutput) sends(name string) func(text string) error {
	return func(text string) error { return o.send(map[string]string{name: text}) }
}

// send sends one line.
func (o *liveOutput) send(v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return o.write(append(line, '\n'))
}

// last sends the last line. An answer that has begun cannot report an error.
func (o *liveOutput) last(v any) error {
	_ = o.send(v)
	return nil
}
