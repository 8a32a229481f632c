// Package predict starts workspaces just before the people come who open them at that time on such days (SPEC 15). It owns
// when somebody is expected, and how long before that a workspace is started. It must not decide whether there is room: the
// statement that starts a workspace does, and records it, so that it happens once on a day whoever leads. What is not
// opened is put to sleep by package ttl.
package predict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"
	_ "time/tzdata" // images and hosts without time zones

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// Kept is for how long arrivals are kept: for as long as they count, and two days on which a clock may be changed.
	Kept = (7*Weeks + 2) * 24 * time.Hour
	// lead is how long before somebody is expected a workspace is started. Most archives are restored in that time.
	lead = 5 * time.Minute
	// interval is the time between two looks.
	interval = time.Minute
)

// Zone returns the time zone of a setting: nil for "off", which predicts nothing, or that of a name such as "Asia/Seoul".
func Zone(setting string) (*time.Location, error) {
	if setting == Off {
		return nil, nil
	}
	zone, err := time.LoadLocation(setting)
	if err != nil || setting == "" || setting == "Local" { // which may differ between processes
		return nil, fmt.Errorf("%q is no time zone: write off, or a name such as Asia/Seoul or Europe/Berlin", setting)
	}
	return zone, nil
}

// Off is the setting that predicts nothing, the default.
const Off = "off"

// Store is the database as the predictor uses it. *store.Store implements it.
type Store interface {
	Now(ctx context.Context) (time.Time, error)
	Arrivals(ctx context.Context, since time.Time, least int) ([]store.Arrivals, error)
}

// Options are what a [Predictor] works with. All are required but Cycles.
type Options struct {
	Store Store
	// Start starts a workspace ahead, and reports whether it did. That of *service.Service.
	Start func(ctx context.Context, id workspace.ID, a store.Ahead) (bool, error)
	// Usage is what became of the starts of some days. That of *usage.Store.
	Usage  func(ctx context.Context, from, to time.Time, user string) (usage.Ahead, error)
	Cycles *metrics.Cycles
	Log    *zap.Logger
}

// planned is a start that is to be made on the day of a plan.
type planned struct {
	id workspace.ID
	Expectation
}

// Predictor starts workspaces ahead. The leader runs one.
type Predictor struct {
	Options
	loop    *periodic.Loop
	counted func(context.Context) error   // look
	zone    atomic.Pointer[time.Location] // nil: off
	sums    atomic.Pointer[usage.Ahead]

	// What follows is used by the loop only.
	in   *time.Location
	day  time.Time // the beginning of the day of the plan; zero without one
	plan []planned
}

// New returns a predictor, which does nothing before [Predictor.Apply]. It performs no I/O.
func New(o Options) *Predictor {
	p := &Predictor{Options: o}
	p.counted = o.Cycles.Counting("predict", p.look)
	p.loop = periodic.New("starting workspaces ahead", interval, p.tick, o.Log)
	return p
}

// tick looks, unless nothing is predicted.
func (p *Predictor) tick(ctx context.Context) error {
	if p.in = p.zone.Load(); p.in == nil {
		p.day, p.plan = time.Time{}, nil
		p.sums.Store(nil)
		return nil
	}
	return p.counted(ctx)
}

// Apply changes the time zone of the days; nil predicts nothing.
func (p *Predictor) Apply(zone *time.Location) {
	p.zone.Store(zone)
	p.loop.Wake()
}

// Run looks at every interval, until ctx ends, and returns nil. Run MUST NOT be called again before it has returned.
func (p *Predictor) Run(ctx context.Context) error {
	defer p.sums.Store(nil)
	p.day = time.Time{} // another leader may have come between
	p.loop.Wake()
	p.loop.Run(ctx)
	return nil
}

// Sums are what became of the starts of the last [Weeks] and today, or nil where that is not known: where this process does not
// lead, or where nothing is predicted.
func (p *Predictor) Sums() *usage.Ahead { return p.sums.Load() }

// look makes the plan of a day when the day begins, and starts what is due. A start that is refused is tried again until the
// person is expected. One that fails does not stop the others.
func (p *Predictor) look(ctx context.Context) error {
	now, err := p.Store.Now(ctx)
	if err != nil {
		return err
	}
	now = now.In(p.in)
	if day := onDay(now, 0); !day.Equal(p.day) || p.day.Location() != p.in {
		if err := p.makePlan(ctx, day); err != nil {
			return err
		}
	}
	var errs []error
	p.plan = slices.DeleteFunc(p.plan, func(w planned) bool {
		if now.Before(w.From.Add(-lead)) || ctx.Err() != nil {
			return false
		}
		if !now.Before(w.From) {
			return true
		}
		started, err := p.Start(ctx, w.id, store.Ahead{Day: p.day, Until: w.Until, Why: w.Why()})
		errs = append(errs, err)
		return started
	})
	sums, err := p.Usage(ctx, p.day.AddDate(0, 0, -7*Weeks), p.day.AddDate(0, 0, 1), "")
	if err == nil {
		p.sums.Store(&sums)
	}
	return errors.Join(append(errs, err)...)
}

// makePlan finds out who is expected on a day.
func (p *Predictor) makePlan(ctx context.Context, day time.Time) error {
	all, err := p.Store.Arrivals(ctx, day.AddDate(0, 0, -7*Weeks), came)
	if err != nil {
		return err
	}
	p.day, p.plan = day, nil
	for _, w := range all {
		if e, expected := Expect(day, w.At); expected {
			p.plan = append(p.plan, planned{w.ID, e})
		}
	}
	return nil
}
