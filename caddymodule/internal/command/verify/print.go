package verify

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/control/verify"
)

// progressEvery is the interval between lines about the progress.
const progressEvery = 5 * time.Second

// printer prints findings one by one, because there may be very many.
type printer struct {
	out, progressTo io.Writer
	json            bool
	problems        int
	told            clock.Moment
}

func printerOf(cmd *cobra.Command, asJSON bool) *printer {
	return &printer{out: cmd.OutOrStdout(), progressTo: cmd.ErrOrStderr(), json: asJSON, told: clock.Now()}
}

// finding prints a finding.
func (p *printer) finding(f verify.Discrepancy) error {
	if f.Level == check.LevelProblem {
		p.problems++
	}
	if p.json {
		return p.object(f)
	}
	text := f.Text
	if f.Workspace != "" {
		text = string(f.Workspace) + ": " + text
	}
	_, err := fmt.Fprintf(p.out, "%-7s  %-9s  %s\n", f.Level, f.Check, text)
	if err == nil && f.Remedy != "" {
		_, err = fmt.Fprintf(p.out, "%20s→ %s\n", "", f.Remedy)
	}
	return err
}

// object prints a finding as a line of JSON.
func (p *printer) object(f verify.Discrepancy) error {
	line := struct {
		check.Finding
		Workspace string `json:"workspace_id,omitempty"`
		Archive   string `json:"archive,omitempty"`
	}{f.Finding, string(f.Workspace), f.Archive}
	e := json.NewEncoder(p.out)
	e.SetEscapeHTML(false)
	return e.Encode(line)
}

// progress prints the progress at intervals.
func (p *printer) progress(r verify.Report) {
	if p.told.Elapsed() < progressEvery {
		return
	}
	p.told = clock.Now()
	fmt.Fprintf(p.progressTo, "%d of %d workspaces, %d objects, %s read\n", r.Workspaces, r.Of, r.Objects,
		units.BytesSize(float64(r.Bytes)))
}

// summary prints how much was compared.
func (p *printer) summary(r verify.Report, homeless bool) error {
	text := fmt.Sprintf("%s and %s compared, %d of them read back; %s not in the database",
		command.Count(int(r.Workspaces), "workspace"), command.Count(int(r.Archives), "archive"), r.Read,
		command.Count(int(r.Unknown), "workspace"))
	f := check.OK("%s", text)
	if homeless {
		f = check.Warning("fix backend first, and run this again", "%s; homes on volumes were not looked for", text)
	}
	f.Check = "summary"
	return p.finding(verify.Discrepancy{Finding: f})
}

// end adds the number of problems to err.
func (p *printer) end(err error) error {
	if p.problems > 0 {
		err = errors.Join(err, fmt.Errorf("%s found", command.Count(p.problems, "problem")))
	}
	return err
}
