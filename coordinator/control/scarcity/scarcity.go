// Package scarcity frees memory when it runs short (SPEC 5). Dozing workspaces keep their memory, so it puts those to
// sleep that have dozed longest.
//
// It defines when memory is short, and how many workspaces it may put to sleep at the same time. It must not write
// desired states itself or act on workspaces: it calls the service layer, and the controller does the rest.
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
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/workspace"
)

// DefaultAt is the default of [Settings.At].
const DefaultAt = 0.9

const (
	// interval is the time between two looks at the memory. The share of stalled time covers the same period.
	interval = 10 * time.Second
	// stalledAt is the share of time in which programs waited for memory. From this share on, memory counts as short
	// even if less of it is in use than [Settings].At.
	stalledAt = 0.1
	// margin is how far a value must fall below its mark before memory no longer counts as short, so that it is not
	// short again immediately.
	margin = 0.05
	// atOnce is how many workspaces may be on their way to STANDBY at the same time because memory is short.
	atOnce = 4
)

// Settings can change at run time.
type Settings struct {
	// At is the share of used memory from which memory counts as short. 0 means never, even while programs wait for
	// memory.
	At float64
}

// DefaultSettings are the defaults.
func DefaultSettings() Settings { return Settings{At: DefaultAt} }

// Validate returns what is wrong with the settings, under their names in the configuration.
func (s Settings) Validate() error {
	if !(s.At >= 0 && s.At <= 1) {
		return setting.Errorf("memory_pressure", "must be from 1%% to 100%%, such as 90%%, or off, not %s", percent(s.At))
	}
	return nil
}

// percent formats a share.
func percent(share float64) string { return fmt.Sprintf("%g%%", math.Round(share*1000)/10) }

// whole formats a measured share.
func whole(share float64) string { return fmt.Sprintf("%.0f%%", share*100) }

// Store is what the runner needs of PostgreSQL. *store.Store implements it.
type Store interface {
	// LongestDozing returns dozing workspaces, beginning with those that have dozed longest. It returns at most limit,
	// minus the number of workspaces that are on their way to STANDBY.
	LongestDozing(ctx context.Context, limit int) ([]workspace.ID, error)
}

// Sleeper is the service layer. *service.Service implements it.
type Sleeper interface {
	// SleepForMemory puts a workspace to sleep unless it no longer dozes. It reports whether it has put the workspace
	// to sleep.
	SleepForMemory(ctx context.Context, id workspace.ID, why string) (bool, error)
}

// Options are the dependencies of a [Runner]. All fields are required except Memory and Cycles.
type Options struct {
	// Memory is backend.Backend's. If it is nil, the runner does nothing.
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

	// The following is used by look only.
	short    bool // whether memory was short at the last look
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

// Set changes the settings immediately.
func (r *Runner) Set(s Settings) {
	if old := r.settings.Swap(&s); *old != s {
		r.loop.Wake()
	}
}

// Run looks at the memory at every interval until ctx ends, and puts workspaces to sleep while memory is short. It
// returns nil. It forgets the findings of an earlier term. Run MUST NOT be called again before it has returned.
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

// look puts some workspaces to sleep if memory is short. If no workspace dozes, or as many as allowed are on their way
// to STANDBY already, it does not read the memory, and the previous finding stays. After an error it changes nothing.
func (r *Runner) look(ctx context.Context) error {
	s := *r.settings.Load()
	if s.At == 0 {
		r.short = false
		r.reported.Recovered()
		return nil
	}
	ids, err := r.Store.LongestDozing(ctx, atOnce)
	if err != nil || len(ids) == 0 || r.Identity(ctx) != nil { // these errors are logged elsewhere
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

// short reports whether memory counts as short: either it has reached one of the two marks, or it was short before and
// has not fallen far enough below both. If programs wait for memory while most of it is free, they have reached limits
// of their own, and putting another workspace to sleep would not help them. So that does not count.
func (s Settings) short(m backend.Memory, was bool) bool {
	used, stalled := s.At, stalledAt
	if was {
		used, stalled = max(used-margin, used/2), stalled-margin
	}
	return s.At > 0 && (m.Used() >= used || m.Stalled >= stalled && m.Used() >= s.At/2)
}
