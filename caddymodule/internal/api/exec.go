package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// maxCommands is how many commands of one user this process runs at the same time. maxWords is how many words a command
// may have.
const (
	maxCommands = 16
	maxWords    = 1000
)

// execWorkspace is POST /workspaces/{id}/exec {"command": […]}: it runs a command in the container of one of the user's
// own workspaces. Administrators, too, can use only their own. The answer is JSON with one object per line. While the
// command prints, the lines are {"stdout": …} or {"stderr": …}. The last line is {"exit_code": n}, or {"problem": …} if
// the end of the command is not known. It refuses with 409 when no container runs. A dozing workspace resumes first.
// This counts against the limits as a start does, so the request gets 429 if the limits are reached.
func (c *call) execWorkspace() error {
	var in struct {
		Command []*string `json:"command"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	command, err := commandOf(in.Command)
	if err != nil {
		return err
	}
	w, done, err := c.commandPlace()
	if err != nil {
		return err
	}
	defer done()
	if err := c.beginCommand(w, command[0]); err != nil {
		return err
	}
	c.fromMemory = true
	return c.exec(command)
}

// commandOf returns the words of a command if they are valid.
func commandOf(given []*string) ([]string, error) {
	command := make([]string, 0, len(given))
	for _, word := range given {
		if word == nil || strings.IndexByte(*word, 0) >= 0 {
			command = nil
			break
		}
		command = append(command, *word)
	}
	if n := len(command); n == 0 || n > maxWords || command[0] == "" {
		return nil, problem.InvalidField("command", "problem.command", words.Values{"Max": maxWords})
	}
	return command, nil
}

// commandPlace returns the user's own workspace in which the command is to run, and takes one of the user's command
// slots. The caller MUST call done.
func (c *call) commandPlace() (w workspace.Workspace, done func(), err error) {
	if w, err = c.find(c.self()); err != nil {
		return w, nil, err
	}
	if !c.commands.take(c.user.ID, maxCommands) {
		p := problem.Commands.With("problem.limit_commands", words.Values{"Limit": maxCommands})
		p.Limit = maxCommands
		return w, nil, p
	}
	return w, func() { c.commands.give(c.user.ID) }, nil
}

// beginCommand prepares a command: it resumes the workspace if it dozes, and writes the entry in the audit.
func (c *call) beginCommand(w workspace.Workspace, program string) error {
	revisions := c.ifMatch()
	if err := c.thaw(w, c.self().If(revisions)); err != nil {
		return err
	}
	if !w.DozeAt.IsZero() {
		revisions = nil // the revision matched before; resuming has changed it
	}
	return c.auditExec(program, revisions)
}

// run runs a command, and returns its exit code. It waits for a container that is still frozen. If it is not known how
// the command ended, the error is a [*problem.Problem] that says why.
func (c *call) run(ctx context.Context, command backend.Command, stdout, stderr io.Writer) (int, error) {
	code, err := c.Containers.Exec(ctx, c.id, command, stdout, stderr)
	for thawing := c.thawing(ctx); errors.Is(err, backend.ErrFrozen); {
		if err := thawing(); err != nil { // nothing has begun
			return 0, err
		}
		code, err = c.Containers.Exec(ctx, c.id, command, stdout, stderr)
	}
	if err != nil {
		return 0, execProblem(ctx, err)
	}
	return code, nil
}

// exec runs the command until the client leaves or the session or this configuration ends.
func (c *call) exec(command []string) error {
	ctx, out, done, err := c.live("application/x-ndjson")
	if err != nil {
		return err
	}
	defer done()
	stdout, stderr := &printed{say: out.sends("stdout")}, &printed{say: out.sends("stderr")}
	code, err := c.run(ctx, backend.Command{Words: command}, stdout, stderr)
	if err == nil {
		if err = errors.Join(stdout.end(), stderr.end()); err != nil {
			err = execProblem(ctx, err)
		}
	}
	switch {
	case err == nil:
		return out.last(map[string]any{"exit_code": code})
	case !out.begun:
		return err
	}
	p := problem.Of(err)
	if p.Cause != nil {
		c.Logger.Warn("it is not known how a command ends", zap.String(logkey.Workspace, string(c.id)), zap.Error(p.Cause))
	}
	return out.last(map[string]any{"problem": p})
}

// execProblem returns why the end of a command is not known.
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

// sends returns a function that sends text as a field with that name.
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
