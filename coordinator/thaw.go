package coordinator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/ttl"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// thawTimeout limits how long a process thaws containers when it stops.
	thawTimeout = 5 * time.Second
	// thawing is how many containers are thawed concurrently.
	thawing = 8
)

// ThawAll ends all dozes, and thaws the containers of the workspaces that keep running (SPEC 3). A workspace for which
// no running place is free goes to sleep without being thawed. It returns how many workspaces dozed, and an error for
// each container that could not be thawed. It needs no leader: the next process may be of an older release, which does
// not know about dozing.
func ThawAll(ctx context.Context, s store.Limited, f backend.Freezer) (dozed int, err error) {
	found, err := s.Frozen(ctx)
	if err != nil {
		return 0, err
	}
	if err := s.EndDozes(ctx); err != nil {
		return 0, err
	}
	for _, w := range found {
		if w.Dozes {
			dozed++
		}
	}
	return dozed, Thaw(ctx, s.Store, f, "")
}

// Thaw thaws the container of a workspace that does not doze any more, or the containers of all such workspaces if id
// is empty.
func Thaw(ctx context.Context, s *store.Store, f backend.Freezer, id workspace.ID) error {
	ids, err := s.ToThaw(ctx, id)
	if err != nil || f == nil {
		return err
	}
	errs := make([]error, len(ids))
	places := make(chan struct{}, thawing)
	var all sync.WaitGroup
	for i, id := range ids {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			if err := guard.Call(guard.Workspace, func() error { return f.Thaw(ctx, id) }); err != nil {
				errs[i] = fmt.Errorf("thawing workspace %s: %w", id, err)
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// endDozes ends all dozes when this process stops, unless another process supports dozing: the next process may be of a
// release that does not. While another process supports dozing, as in a rolling restart, nothing changes. Before
// endDozes runs, this process records that it writes no more activity. So if two processes stop together, the later one
// ends the dozes.
func (c *Coordinator) endDozes() {
	if c.backend.Freezer == nil || c.Refused() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), thawTimeout)
	defer cancel()
	writers, err := c.store.Writers(ctx)
	if err == nil && slices.ContainsFunc(writers.All, func(w postgres.Writer) bool { return !w.Gone && !w.Late && ttl.KnowsDoze(w) }) {
		return
	}
	dozed := 0
	if err == nil {
		dozed, err = ThawAll(ctx, c.Service.Limited(), c.backend.Freezer)
	}
	switch {
	case err != nil:
		c.log.Error("frozen workspaces could not be thawed at the stop of this process; before an older release starts, thaw them "+
			"with caddy codehub workspace thaw", zap.Error(err))
	case dozed > 0:
		c.log.Info("no workspace dozes any more, because no other process supports dozing", zap.Int(logkey.Workspaces, dozed))
	}
}
