package api

import (
	"context"
	"errors"
	"net/http"
	"time"

	"go.uber.org/zap"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/control/gc"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// maxCollecting bounds how long a request waits for a garbage collection. maxFindings bounds how many archives the
// answer lists.
const (
	maxCollecting = 10 * time.Minute
	maxFindings   = 1000
)

// Administration is what administrators can see and do in the installation.
// *coordinator.Coordinator implements it.
type Administration interface {
	Overview(ctx context.Context) (coordinator.Overview, error)
	Collect(ctx context.Context, dry bool, each func(gc.Judgement) error) (gc.Report, error)
	Scrub(ctx context.Context, dry bool) (store.Scrub, error)
}

// overview is GET /admin/overview, for administrators. It answers with the state of all workspaces, the leaders, how
// full the disk is, and the state of the archives.
func (c *call) overview() error {
	o, err := c.Administration.Overview(c.r.Context())
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, v1.OverviewOf(o, c.Health(), c.Service.Limits()))
}

// allHistory is GET /admin/history?limit&before, for administrators: the events of all workspaces,
// newest first.
func (c *call) allHistory() error {
	limit, before, err := c.historyPage()
	if err != nil {
		return err
	}
	found, err := c.Service.Events(c.r.Context(), c.actor(), limit, before)
	if err != nil {
		return err
	}
	return sendHistory(c, found, limit, v1.EventOf, func(e store.Event) *int64 { return &e.ID })
}

// collect is POST /admin/gc {"dry_run": true}, for administrators: it lists the archives that no workspace needs. With
// false, it deletes those that are due, as `caddy codehub gc` does. It answers 409 while another collection runs.
func (c *call) collect() error {
	dry, err := c.dryRun()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), maxCollecting)
	defer cancel()
	if !dry {
		if err := c.Audit.Write(ctx, audit.SystemCollect, "", nil); err != nil {
			return err
		}
	}
	answer := v1.Collection{DryRun: dry, Items: []v1.Finding{}}
	report, err := c.Administration.Collect(ctx, dry, func(f gc.Judgement) error {
		switch f.Verdict {
		case gc.Protected, gc.Foreign: // counted only
			return nil
		}
		if answer.More = len(answer.Items) == maxFindings; !answer.More {
			answer.Items = append(answer.Items, v1.FindingOf(f))
		}
		return nil
	})
	var busy *postgres.BusyError
	var stopped *gc.CircuitBreakerError
	switch {
	case errors.As(err, &busy):
		return problem.Busy.With("problem.collecting", nil)
	case errors.As(err, &stopped):
		message := stopped.Error()
		answer.Stopped = &message
	case err != nil:
		return err
	}
	if !dry {
		c.Logger.Info("archives collected on command", zap.String(logkey.By, c.user.ID), zap.Int(logkey.Deleted, report.Deleted))
	}
	answer.Report = v1.ReportOf(report)
	return sendJSON(c.w, http.StatusOK, answer)
}

// dryRun reads {"dry_run": true}. The field is required, so that nobody changes something by leaving it out.
func (c *call) dryRun() (bool, error) {
	var in struct {
		Dry *bool `json:"dry_run"`
	}
	if err := c.decode(&in); err != nil {
		return false, err
	}
	if in.Dry == nil {
		return false, problem.InvalidField("dry_run", "problem.dry_run", nil)
	}
	return *in.Dry, nil
}

// scrubArchives is POST /admin/scrub {"dry_run": true}, for administrators: it shows how much would be read if all
// archives were read back. With false, it asks the leader to read all archives back now, and answers 202. The overview
// shows how much is left, and the findings.
func (c *call) scrubArchives() error {
	dry, err := c.dryRun()
	if err != nil {
		return err
	}
	found, err := c.Administration.Scrub(c.r.Context(), dry)
	if err != nil {
		return err
	}
	status := http.StatusOK
	if !dry {
		status = http.StatusAccepted
		c.Logger.Info("archives are read back on command", zap.String(logkey.By, c.user.ID), zap.Int64(logkey.Archives, found.Left))
	}
	return sendJSON(c.w, status, v1.ScrubOf(found, dry))
}
