// Package scarcity frees memory when it runs short (SPEC 5). Workspaces that doze keep theirs: those
// that have dozed longest are put to sleep.
//
// It owns when memory counts as short, and how many go to sleep for it at once. It must not write
// desired states itself or act on workspaces: it calls the service layer, and the controller does the
// rest.
package scarcity

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultAt is the default of [Settings.At].
const DefaultAt = 0.9

const (
	// interval is the time between two looks at the memory: what is stalled is told of as long a time.
	interval = 10 * time.Second
	// stalledAt is the share of the time in which something waits for memory from which on it is
	// short, however much is in use.
	stalledAt = 0.1
	// margin is how far below a mark the memory must come until it is not short any more. So it is
	// not short again at once.
	margin = 0.05
	// atOnce is how many workspaces are on their way to STANDBY at the same time because of it.
	atOnce = 4
)

// Settings can change at run time.
type Settings struct {
	// At is the share of the memory in use from which on it is short. 0 is never, also while something
	// waits for memory.
	At float64
}

// DefaultSettings are the defaults.
func DefaultSettings() Settings { return Settings{At: DefaultAt} }

// Validate reports what is wrong with the settings, under their names in the configuration.
func (s Settings) Validate() error {
	if !(s.At >= 0 && s.At <= 1) {
		return fmt.Errorf("memory_pressure: must be from 1%% to 100%%, such as 90%%, or off, not %s", percent(s.At))
	}
	return nil
}

// percent shows a share.
func percent(share float64) string { return fmt.Sprintf("%g%%", math.Round(share*1000)/10) }

// whole shows a share that is measured.
func whole(share float64) string { return fmt.Sprintf("%.0f%%", share*100) }

// Store is what the runner needs of PostgreSQL. *store.Store implements it.
type Store interface {
	// LongestDozing returns workspaces that doze, the longest first: at most limit, less those that
	// are on their way to STANDBY.
	LongestDozing(ctx context.Context, limit int) ([]workspace.ID, error)
}

// Sleeper is the service layer. *service.Service implements it.
type Sleeper interface {
	// SleepForMemory puts a workspace to sleep, unless it does not doze any more, and reports whether
	// it did.
	SleepForMemory(ctx context.Context, id workspace.ID, why string) (bool, error)
}

// Options are what a [Runner] works with. All fields are required but Memory and Cycles.
type Options struct {
	// Memory is that of backend.Backend. Nil: there is nothing to do.
	Memory  func(ctx context.Context) (backend.Memory, error)
	Store   Store
	Sleeper Sleeper
	// Identity returns nil while the engine is the recorded one (SPEC 2).
	Identity func(ctx context.Context) error
	Cycles   *metrics.Cycles
	Log      *zap.Logger
}

// Runner puts workspaces to sleep while memory is short. It runs in the leading process.
type Runner struct {
	Options
	settings atomic.Pointer[Settings]
	loop     *periodic.Loop

	// What follows is used by look only.
	short    bool // memory was, when it was last seen
	reported *outage.Reporter
}

// New returns a runner. It performs no I/O.
func New(o Options, settings Settings) *Runner {
	r := &Runner{Options: o}
	r.settings.Store(&settings)
	r.loop = periodic.New("putting workspaces to sleep where memory runs short", interval,
		o.Cycles.Counting("memory", r.look), o.Log)
	return r
}

// Set changes the settings at once.
func (r *Runner) Set(s Settings) {
	if old := r.settings.Swap(&s); *old != s {
		r.loop.Wake()
	}
}

// Run looks at the memory at every interval, and puts workspaces to sleep while it is short, until ctx
// ends. It returns nil. What an earlier term has seen is forgotten. Run MUST NOT be called again before
// it has returned.
func (r *Runner) Run(ctx context.Context) error {
	r.short = false
	r.reported = outage.New(r.Log, zapcore.WarnLevel,
		"memory runs short; the workspaces that have dozed longest are put to sleep",
		"workspaces that doze keep their memory again")
	if r.Memory != nil {
		r.loop.Run(ctx)
	}
	<-ctx.Done()
	return nil
}

// look puts some workspaces to sleep if memory is short. While none dozes, and while as many as may are
// on their way already, it asks nothing, and what was seen before still holds. After an error it changes
// nothing.
func (r *Runner) look(ctx context.Context) error {
	s := *r.settings.Load()
	if s.At == 0 {
		r.short = false
		r.reported.Recovered()
		return nil
	}
	ids, err := r.Store.LongestDozing(ctx, atOnce)
	if err != nil || len(ids) == 0 || r.Identity(ctx) != nil { // who finds these out logs them
		return err
	}
	m, err := r.Memory(ctx)
	if err != nil {
		return fmt.Errorf("asking how much memory is in use: %w", err)
	}
	r.short = s.short(m, r.short)
	fields := []zap.Field{zap.String(logkey.Used, whole(m.Used())), zap.Int64(logkey.FreeBytes, m.Available),
		zap.String(logkey.Stalled, whole(m.Stalled))}
	if !r.short {
		r.reported.Recovered(fields...)
		return nil
	}
	r.reported.Failed(fmt.Errorf("%s of the memory is in use, and something waited for memory in %s of the last 10 s; "+
		"the marks are memory_pressure %s and %s", whole(m.Used()), whole(m.Stalled), percent(s.At), percent(stalledAt)),
		fields...)
	why := fmt.Sprintf("to free memory: %s of it was in use", whole(m.Used()))
	var errs []error
	for _, id := range ids {
		if _, err := r.Sleeper.SleepForMemory(ctx, id, why); err != nil {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// short reports whether memory counts as short: it is past a mark, or it was and has not come far
// enough below both. What waits while most of the memory is free waits at a limit of its own: no other workspace's sleep
// helps it.
func (s Settings) short(m backend.Memory, was bool) bool {
	used, stalled := s.At, stalledAt
	if was {
		used, stalled = max(used-margin, used/2), stalled-margin
	}
	return s.At > 0 && (m.Used() >= used || m.Stalled >= stalled && m.Used() >= s.At/2)
}
