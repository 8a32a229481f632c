package codehub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator"
)

// stopTimeout bounds stopping the coordinator: flushing activity, giving up the leadership, thawing
// dozing workspaces, closing connections.
const stopTimeout = 15 * time.Second

// coordinators holds the running coordinators, one per installation and set of
// servers. Caddy starts a new configuration before it stops the old one, so both
// refer to the same entry for a while.
var coordinators = caddy.NewUsagePool()

// shared is a coordinator with the configurations that refer to it.
type shared struct {
	coordinator *coordinator.Coordinator
	log         *reloadableCore

	// shards is what the coordinator was made with.
	shards int

	mu sync.Mutex
	// active are the started configurations, the newest last. The settings of the newest apply. If a new configuration
	// fails to start, it is removed, and the settings of the one before it apply again.
	active []*reference
}

// Destruct stops the coordinator. The pool calls it after the last release.
func (s *shared) Destruct() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.coordinator.Stop(ctx); err != nil {
		return fmt.Errorf("codehub: stopping the coordinator: %w", err)
	}
	return nil
}

// reference is one configuration's reference to a coordinator.
type reference struct {
	shared   *shared
	key      string
	settings coordinator.Settings
	log      zapcore.Core
	released atomic.Bool
}

// acquire returns a reference to the coordinator that belongs to the options, and makes that coordinator if there is
// none. It performs no I/O.
func acquire(o coordinator.Options, live coordinator.Settings, log *zap.Logger) (*reference, error) {
	r := &reference{key: poolKey(o), settings: live, log: log.Core()}
	value, _, err := coordinators.LoadOrNew(r.key, func() (caddy.Destructor, error) {
		core := newReloadableCore(r.log)
		c, err := coordinator.New(o, zap.New(core).Named(log.Name()))
		if err != nil {
			return nil, err
		}
		return &shared{coordinator: c, log: core, shards: o.Shards}, nil
	})
	if err != nil {
		return nil, err
	}
	r.shared = value.(*shared)
	if running := r.shared.shards; running != o.Shards {
		return nil, errors.Join(shardsError(running, o.Shards), r.release())
	}
	return r, nil
}

// shardsError refuses a reload that changes the shards: two coordinators in one process
// that divide the workspaces in different ways would wait for each other.
func shardsError(running, wanted int) error {
	return fmt.Errorf("setting \"coordinator shards\": a reload cannot change it from %d to %d: "+
		"write %d, or restart this process, and the others of the installation with the same number",
		running, wanted, running)
}

func (r *reference) coordinator() *coordinator.Coordinator { return r.shared.coordinator }

// activate applies the settings of the configuration, and starts the coordinator if it does not run yet. If first is
// true, because the process serves nothing yet, it waits for PostgreSQL until ctx ends. After an error the former
// settings apply.
func (r *reference) activate(ctx context.Context, first bool) error {
	s := r.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	s.active = append(s.active, r)
	bounded, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	err := s.apply(bounded, r)
	if err == nil && first {
		err = s.coordinator.AwaitDatabase(ctx)
	}
	if err == nil {
		if err = s.coordinator.Start(ctx); err != nil {
			err = fmt.Errorf("starting the coordinator: %w", err)
		}
	}
	if err == nil {
		return nil
	}
	bounded, cancel = context.WithTimeout(context.WithoutCancel(ctx), startTimeout)
	defer cancel()
	return errors.Join(err, s.remove(bounded, r))
}

// deactivate withdraws the settings of the configuration. Those of the newest
// remaining one apply again.
func (r *reference) deactivate() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	s := r.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.remove(ctx, r)
}

// release gives the coordinator back, once.
func (r *reference) release() error {
	if r.released.Swap(true) {
		return nil
	}
	_, err := coordinators.Delete(r.key)
	return err
}

// apply gives the settings and the log of r to the coordinator.
func (s *shared) apply(ctx context.Context, r *reference) error {
	s.log.use(r.log)
	return s.coordinator.Apply(ctx, r.settings)
}

// remove removes r, and applies the settings of the configuration before it if r was
// the newest.
func (s *shared) remove(ctx context.Context, r *reference) error {
	at := slices.Index(s.active, r)
	if at < 0 {
		return nil
	}
	newest := at == len(s.active)-1
	s.active = slices.Delete(s.active, at, at+1)
	if !newest || at == 0 {
		return nil
	}
	return s.apply(ctx, s.active[at-1])
}

// poolKey names the coordinator that belongs to the options. It is a hash because the
// options hold secrets. The hash does not include the shards. So a reload that changes the shards finds the coordinator
// that is running, and is refused.
func poolKey(o coordinator.Options) string {
	o.Shards = 0
	text, err := json.Marshal(o)
	if err != nil { // cannot happen: the options are plain values
		panic(fmt.Sprintf("codehub: hashing the options: %v", err))
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
