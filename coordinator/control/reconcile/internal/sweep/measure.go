package sweep

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// When a home is archived or restored, the job reports its size. At other times the backend measures the home without a
// job, because a job would keep the workspace's container from running, and a person would have to wait for it.
const (
	// measureBatch is how many homes are measured in one round, and measureLimit is how long that may take. If a home
	// takes longer, only a lower bound of its size is known.
	measureBatch = 16
	measureLimit = time.Minute
)

// Measure measures from time to time the homes whose size is out of date. Only one shard of the process does so at a
// time. It runs beside the loop and decides nothing.
func (s *Sweeper) Measure(ctx context.Context) {
	skipped := make(map[workspace.ID]struct{}) // what could not be counted, in this term
	counting := outage.New(s.Log, zap.WarnLevel, "cannot measure homes; their sizes are out of date",
		"measuring homes works again")
	for {
		pause := s.Settings().MeasureInterval
		if !periodic.Pause(ctx, pause/2+rand.N(pause)) {
			return
		}
		select {
		case <-ctx.Done():
			return
		case s.Measuring <- struct{}{}:
		}
		err := guard.Call(guard.Component, func() error { return s.measureSome(ctx, skipped) })
		<-s.Measuring
		counting.Report(ctx, err)
	}
}

// measureSome measures the homes that are due, up to the limit of one round. Homes that cannot be measured, for example
// because they have no folder that can be counted, are added to skipped and left out from then on.
func (s *Sweeper) measureSome(ctx context.Context, skipped map[workspace.ID]struct{}) error {
	pace := s.Settings()
	limit := measureBatch + len(skipped)
	ids, err := s.Store.UnmeasuredHomes(ctx, s.Shard, s.Shards, pace.MeasureInterval, pace.MeasureAge,
		s.LocalHomes, limit)
	if err == nil && len(ids) < limit { // those are all: what is not among them is gone, or was measured
		maps.DeleteFunc(skipped, func(id workspace.ID, _ struct{}) bool { return !slices.Contains(ids, id) })
	}
	ids = slices.DeleteFunc(ids, func(id workspace.ID) bool { _, skip := skipped[id]; return skip })
	ids = ids[:min(len(ids), measureBatch)]
	if err != nil || len(ids) == 0 {
		return err
	}
	if err := s.Identity.Backend(ctx); err != nil {
		return nil // the guard logs it
	}
	rows, err := s.Store.Workspaces(ctx, ids)
	if err != nil {
		return err
	}
	if err := s.Clock.Measure(ctx); err != nil {
		return err
	}
	at := s.Clock.Now() // what happens from here on is not in the figures
	found, err := s.Backend.Usage(ctx, measureLimit, ids...)
	var missing *backend.MissingImageError
	if errors.As(err, &missing) {
		return nil // the first job has it pulled
	}
	if err != nil {
		return err
	}
	for _, w := range rows {
		u, ok := found[w.ID]
		if !ok {
			skipped[w.ID] = struct{}{}
			continue
		}
		size := workspace.HomeSize{Bytes: u.Bytes, Files: u.Files, AtLeast: u.AtLeast, MeasuredAt: at}
		saved, err := s.Store.SaveHome(ctx, s.Fence, w.ID, size)
		if err != nil {
			return err
		}
		if saved {
			s.WarnOfSize(w.ID, w.Home, size)
		}
	}
	return nil
}

// WarnOfSize logs that a home has become larger than the setting home_warn allows.
func (s *Sweeper) WarnOfSize(id workspace.ID, was, is workspace.HomeSize) {
	if limit := s.Settings().HomeWarn; limit > 0 && is.Bytes >= limit && was.Bytes < limit {
		s.Log.Warn("a home is larger than the setting home_warn", zap.String(logkey.Workspace, string(id)),
			zap.Int64(logkey.Bytes, is.Bytes), zap.Int64(logkey.Files, is.Files), zap.Int64(logkey.HomeWarn, limit))
	}
}
