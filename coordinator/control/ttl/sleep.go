package ttl

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/errgroup"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// Questions is how many workspaces are looked at concurrently. In a large installation, tens of workspaces fall
	// asleep each second in the evening, and each of them is looked at a few times.
	Questions = 16
	// asking bounds the time for looks in one tick, because the known use must still be fresh after the looks.
	// Workspaces that this tick could not look at stay awake until the next one does.
	asking = 15 * time.Second
)

// look is this process's last look at a workspace. A new leader begins without any.
type look struct {
	sample   *work.Sample // nil before the first answer
	verdict  work.Verdict
	asked    time.Time // by the clock of this process
	panicked bool      // the last look panicked; that is logged once
	swept    bool      // found unused in this round
	unmade   bool      // it could not be frozen; retry only after the next use
	full     time.Time // when too many others dozed for it to doze; by the clock of this process
}

// stays reports whether the workspace must not doze yet, because it could not be frozen, or because the limit was
// reached less than s.Doze ago.
func (l *look) stays(now time.Time, s Settings) bool { return l.unmade || now.Sub(l.full) < s.Doze }

// sleep announces the sleep of unused running workspaces without work, and later puts them to sleep. It does so only
// while its knowledge is fresh. It knows of all use until upTo. A round over all workspaces may take several ticks:
// each tick continues where the previous one ran out of time. If each tick began anew, many busy workspaces could keep
// the others from being looked at.
func (r *Runner) sleep(ctx context.Context, fresh func() bool, upTo time.Time, s Settings) error {
	if r.looks == nil {
		r.looks = make(map[workspace.ID]*look)
	}
	if !r.midway {
		r.midway, r.after = true, store.Unused{}
		for _, l := range r.looks {
			l.swept = false
		}
	}
	var errs []error
	for r.midway {
		page, now, err := r.Store.Unused(ctx, s.Standby, s.unusedFor(), r.after, batch)
		if err != nil {
			r.barrier.reset() // the database is away, also for processes that write there because Redis refuses
			return errors.Join(append(errs, fmt.Errorf("finding unused RUNNING workspaces: %w", err))...)
		}
		errs = append(errs, r.sleepPage(ctx, fresh, page, now, upTo, s))
		switch {
		case len(page) < batch:
			r.midway = false
		case ctx.Err() != nil || !fresh():
			r.soon = min(r.soon, s.gap())
			return errors.Join(errs...)
		default:
			r.after = page[len(page)-1]
		}
	}
	for id, l := range r.looks {
		if !l.swept {
			delete(r.looks, id)
		}
	}
	return errors.Join(errs...)
}

// sleepPage does that for one page of workspaces. A failure of one does not stop the others.
func (r *Runner) sleepPage(ctx context.Context, fresh func() bool, page []store.Unused, now, upTo time.Time,
	s Settings) error {
	asked := r.ask(ctx, page, now, s)
	var announce []store.Unused
	decisions := make([]decision, len(page))
	var errs []error
	for i, u := range page {
		if u.Unreadable != nil {
			continue // it stays awake
		}
		l := r.looks[u.ID]
		var d decision
		if err := guard.Call(guard.Workspace, func() error {
			d = decide(judged{Unused: u, verdict: l.verdict, stays: l.stays(r.now(), s), fresh: asked[i], now: now, upTo: upTo}, s)
			return nil
		}); err != nil {
			errs = append(errs, fmt.Errorf("deciding about workspace %s: %w", u.ID, err))
			continue
		}
		decisions[i] = d
		r.soon = min(r.soon, d.again)
		if !sameBusy(d.busy, u.Busy) || !d.sleepAt.Equal(u.SleepAt) {
			u.Busy, u.SleepAt = d.busy, d.sleepAt
			announce = append(announce, u)
		}
	}
	if !fresh() {
		return errors.Join(errs...)
	}
	if err := r.Store.Announce(ctx, r.fence, s.Standby, announce); err != nil {
		r.barrier.reset()
		return errors.Join(append(errs, err)...)
	}
	for i, u := range page {
		if !decisions[i].sleep && !decisions[i].doze {
			continue
		}
		if !fresh() {
			break
		}
		if decisions[i].doze {
			dozes, err := alone(func() (bool, error) { return r.Expirer.Doze(ctx, u.ID, upTo.Add(-s.Doze)) })
			if err == nil && !dozes {
				r.looks[u.ID].full = r.now()
			}
			if err != nil && len(errs) < maxErrors {
				errs = append(errs, fmt.Errorf("letting workspace %s doze: %w", u.ID, err))
			}
			continue
		}
		unused := service.Unused{TTL: s.Standby, Since: upTo.Add(-s.Standby), Why: decisions[i].why}
		slept, err := alone(func() (bool, error) { return r.Expirer.Sleep(ctx, u.ID, unused) })
		if slept {
			r.slept.add(u.ID, r.now())
		}
		if err != nil && len(errs) < maxErrors {
			errs = append(errs, fmt.Errorf("changing the desired state of workspace %s to STANDBY: %w", u.ID, err))
		}
	}
	return errors.Join(errs...)
}

// alone calls f, which handles one workspace. It turns a panic into an error of that workspace.
func alone(f func() (bool, error)) (done bool, err error) {
	err = guard.Call(guard.Workspace, func() (err error) { done, err = f(); return err })
	return done, err
}

// sameBusy compares the parts of Busy that people see.
func sameBusy(a, b *workspace.Busy) bool {
	return a == nil && b == nil || a != nil && b != nil && a.Reason == b.Reason && a.Detail == b.Detail
}

// ask looks at the workspaces that have no recent look, a few at a time, beginning with the one that was looked at
// longest ago. It reports which of them have a new verdict.
func (r *Runner) ask(ctx context.Context, page []store.Unused, now time.Time, s Settings) (asked []bool) {
	asked = make([]bool, len(page))
	began := r.now()
	var due []int
	for i, u := range page {
		l := r.looks[u.ID]
		if l == nil {
			l = new(look)
			r.looks[u.ID] = l
		}
		l.swept = true
		switch {
		case u.Unreadable != nil:
		case r.Looker == nil, !u.DozeAt.IsZero(): // nothing works in a frozen one
			l.sample, l.verdict, asked[i] = nil, work.Verdict{Known: true}, true
		case began.Sub(l.asked) < s.gap():
			// The previous look is too recent for a comparison.
		case l.stays(began, s) && u.SleepAt.Sub(now) > s.ahead():
			// It neither dozes nor sleeps soon.
		case u.SleepAt.After(now) && u.SleepAt.Sub(now) < s.gap():
			// The next look takes place at its time to sleep, and a look now would be too close to that one.
		default:
			due = append(due, i)
		}
	}
	slices.SortStableFunc(due, func(a, b int) int {
		return cmp.Compare(r.looks[page[a].ID].asked.UnixNano(), r.looks[page[b].ID].asked.UnixNano())
	})
	ctx, cancel := context.WithTimeout(ctx, asking)
	defer cancel()
	var g errgroup.Group
	g.SetLimit(Questions)
	var mu sync.Mutex // guards asked
	for _, i := range due {
		if ctx.Err() != nil {
			break
		}
		guard.Go(&g, func() error {
			l := r.looks[page[i].ID] // no other goroutine has this one
			l.asked = r.now()
			err := guard.Call(guard.Workspace, func() error { l.verdict = r.judge(ctx, page[i], l, s); return nil })
			if err != nil {
				l.sample, l.verdict = nil, work.Verdict{Known: true, Reason: workspace.BusyNoAnswer}
				if !l.panicked {
					r.Log.Error("looking at a workspace panicked; it stays awake",
						zap.String(logkey.Workspace, string(page[i].ID)), zap.Error(err), guard.Stack(err))
				}
			}
			l.panicked = err != nil
			mu.Lock()
			defer mu.Unlock()
			asked[i] = true
			return nil
		})
	}
	_ = g.Wait() // the goroutines return no errors
	return asked
}

// judge looks at one workspace. Without an answer, the workspace counts as busy.
func (r *Runner) judge(ctx context.Context, u store.Unused, l *look, s Settings) work.Verdict {
	sample, err := r.Looker.Look(ctx, u.ID)
	if errors.Is(err, backend.ErrFrozen) { // frozen by a person, or just being thawed
		l.sample = nil
		return work.Verdict{Known: true}
	}
	if errors.Is(err, backend.ErrNotFound) {
		l.sample = nil
		return work.Verdict{} // the container has just ended; the controller will notice
	}
	if err != nil {
		r.Log.Debug("a workspace could not be looked at and stays awake", zap.String(logkey.Workspace, string(u.ID)),
			zap.Error(err))
		return work.Verdict{Known: true, Reason: workspace.BusyNoAnswer}
	}
	if r.Notebooks != nil && u.Endpoint != "" {
		var known bool
		sample.Kernel, known = r.Notebooks.Busy(ctx, u.Endpoint, u.BasePath)
		sample.KernelsUnknown = !known
	}
	verdict := s.Work.Judge(l.sample, sample, s.Standby)
	l.sample = &sample
	return verdict
}
