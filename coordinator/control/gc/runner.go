package gc

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Runner is the collector. The leader runs one.
type Runner struct {
	opts     Options
	log      *zap.Logger
	loop     *periodic.Loop
	settings atomic.Pointer[Settings]
	term     atomic.Pointer[term]
	first    time.Duration
	last     atomic.Pointer[Report] // of this term
}

// New returns a collector. It performs no I/O.
func New(opts Options, log *zap.Logger) *Runner {
	r := &Runner{opts: opts, log: log, first: firstCycle}
	settings := opts.Settings.orDefault()
	r.settings.Store(&settings)
	r.loop = periodic.New("collecting archives", settings.Interval, opts.Cycles.Counting("gc", r.cycle), log)
	return r
}

// Set changes the settings from the next cycle on, and the interval immediately. Values that Validate refuses
// are replaced by the defaults.
func (r *Runner) Set(settings Settings) {
	settings = settings.orDefault()
	r.settings.Store(&settings)
	r.loop.SetInterval(settings.Interval)
}

// Now runs one cycle on a person's command, in any process: [DryRun] if dry is set, else [Collect].
func (r *Runner) Now(ctx context.Context, dry bool, each func(Judgement) error) (Report, error) {
	o := r.opts
	o.Settings = *r.settings.Load()
	if dry {
		return DryRun(ctx, o, Request{}, each)
	}
	return Collect(ctx, o, Request{}, each)
}

// Last returns the findings of the last cycle of this term, or nil.
func (r *Runner) Last() *Report { return r.last.Load() }

// firstCycle is the time from the beginning of a term to its first cycle. If that time were a whole interval, leaders
// with shorter terms would never collect.
const firstCycle = time.Minute

// Run collects after a minute, and then every interval, until ctx ends, and returns nil. It deletes only while
// f is the newest epoch and lease reports true. The terms do not overlap: Run MUST NOT be called again before
// it has returned.
func (r *Runner) Run(ctx context.Context, f postgres.Fence, lease func() bool) error {
	r.term.Store(&term{fence: f, lease: lease})
	defer r.last.Store(nil)
	defer time.AfterFunc(r.first, r.loop.Wake).Stop()
	r.loop.Run(ctx)
	return nil
}

// cycle runs one cycle of the term. If another process is collecting on command, it tries again soon.
func (r *Runner) cycle(ctx context.Context) error {
	report, err := collect(ctx, &cycle{opts: r.opts, settings: *r.settings.Load()}, r.term.Load())
	var busy *postgres.BusyError
	if errors.As(err, &busy) {
		r.log.Info("another process is collecting archives; it is tried again soon", zap.String(logkey.Holder, busy.Holder))
		time.AfterFunc(r.first, r.loop.Wake)
		return nil
	}
	r.opts.Metrics.Collected(report.Deleted, report.Spared, report.Failed, report.Uploads)
	if err == nil {
		r.last.Store(&report)
	}
	if err == nil || report.Archives > 0 {
		report.log(r.log)
	}
	return err
}
