package reconcile

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The size of a home is known after it was archived or restored: the job tells. Others are
// counted in between, by the backend and not by a job: a job would exclude the workspace's
// container, and somebody would wait for it.
const (
	// measureBatch is how many homes are counted in one go, and measureLimit for how long.
	// Of a home that takes longer it is known how much it holds at least.
	measureBatch = 16
	measureLimit = time.Minute
)

// measure counts the homes whose size is out of date, from time to time, in one shard of
// the process at a time. It runs beside the loop and decides nothing.
func (l *loop) measure(ctx context.Context) {
	skipped := make(map[workspace.ID]struct{}) // what could not be counted, in this term
	counting := outage.New(l.log, zap.WarnLevel, "cannot measure homes; their sizes are out of date", "measuring homes works again")
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(jitter(l.settings.Load().MeasureInterval)):
		}
		select {
		case <-ctx.Done():
			return
		case l.measuring <- struct{}{}:
		}
		counting.Report(ctx, l.measureSome(ctx, skipped))
		<-l.measuring
	}
}

// measureSome counts the homes that are due, as many as one go takes. What has no folder
// that can be counted goes to skipped, and is left out from then on.
func (l *loop) measureSome(ctx context.Context, skipped map[workspace.ID]struct{}) error {
	s := l.settings.Load()
	limit := measureBatch + len(skipped)
	ids, err := l.store.UnmeasuredHomes(ctx, l.term.Shard, l.term.Shards, s.MeasureInterval, s.MeasureAge, l.localHomes, limit)
	if err == nil && len(ids) < limit { // those are all: what is not among them is gone, or was measured
		maps.DeleteFunc(skipped, func(id workspace.ID, _ struct{}) bool { return !slices.Contains(ids, id) })
	}
	ids = slices.DeleteFunc(ids, func(id workspace.ID) bool { _, skip := skipped[id]; return skip })
	ids = ids[:min(len(ids), measureBatch)]
	if err != nil || len(ids) == 0 {
		return err
	}
	if err := l.identity.Backend(ctx); err != nil {
		return nil // the guard logs it
	}
	rows, err := l.store.Workspaces(ctx, ids)
	if err != nil {
		return err
	}
	if err := l.clock.Measure(ctx); err != nil {
		return err
	}
	at := l.clock.Now() // what happens from here on is not in the figures
	found, err := l.backend.Usage(ctx, measureLimit, ids...)
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
		saved, err := l.store.SaveHome(ctx, l.term.Fence, w.ID, size)
		if err != nil {
			return err
		}
		if saved {
			l.warnOfSize(w.ID, w.Home, size)
		}
	}
	return nil
}

// warnOfSize logs that a home has become larger than the setting home_warn allows.
func (l *loop) warnOfSize(id workspace.ID, was, is workspace.HomeSize) {
	if limit := l.settings.Load().HomeWarn; limit > 0 && is.Bytes >= limit && was.Bytes < limit {
		l.log.Warn("a home is larger than the setting home_warn", zap.String("workspace", string(id)),
			zap.Int64("bytes", is.Bytes), zap.Int64("files", is.Files), zap.Int64("home_warn", limit))
	}
}
