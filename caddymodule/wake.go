package codehub

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/route"
	"github.com/codehub/gateway/coordinator/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// askAgain is how often a wish is repeated that cannot be granted yet, or whose
	// effect does not show: the notification may have been lost.
	askAgain = time.Second
	// The pause after a wish that failed, at first and at most.
	wishRetryMin = 250 * time.Millisecond
	wishRetryMax = 5 * time.Second
	// wishTimeout bounds one wish.
	wishTimeout = 10 * time.Second
	// refusalKept is how long a refusal answers further requests without asking
	// again.
	refusalKept = time.Second
	// The pause between two looks at whether the application answers.
	probeMin = 25 * time.Millisecond
	probeMax = 250 * time.Millisecond
	// probeTimeout bounds one look. Applications may take long for their first answer.
	probeTimeout = 10 * time.Second
)

// wisher is the service layer, as far as the gateway needs it.
type wisher interface {
	SetDesired(ctx context.Context, a service.Actor, id workspace.ID, d workspace.DesiredState) error
	Running(ctx context.Context, userID string) ([]workspace.Workspace, error)
}

// waking wakes the workspaces of one route table: for each, one goroutine makes
// the wish and waits for the application's first answer, however many requests
// wait for it. It outlives a reload of the configuration, as the table does.
type waking struct {
	routes *route.Table
	wishes wisher
	probe  func(ctx context.Context, endpoint string) bool
	log    *zap.Logger

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	held   atomic.Int64 // requests that wait for a workspace
	polls  atomic.Int64 // questions for the status that wait for a change

	mu     sync.Mutex
	wakers map[workspace.ID]*waker
}

// wakings holds the waking of every route table in use. Caddy provisions a new
// configuration before it cleans up the old one, so both share the entry.
var wakings = caddy.NewUsagePool()

// acquireWaking returns the waking of the table, and what releases it.
func acquireWaking(routes *route.Table, wishes wisher, log *zap.Logger) (*waking, func() error, error) {
	v, _, err := wakings.LoadOrNew(routes, func() (caddy.Destructor, error) {
		return newWaking(routes, wishes, log), nil
	})
	if err != nil {
		return nil, nil, err
	}
	return v.(*waking), func() error { _, err := wakings.Delete(routes); return err }, nil
}

func newWaking(routes *route.Table, wishes wisher, log *zap.Logger) *waking {
	k := &waking{routes: routes, wishes: wishes, log: log, wakers: make(map[workspace.ID]*waker)}
	k.ctx, k.cancel = context.WithCancel(context.Background())
	k.probe = newProber().answers
	return k
}

// Destruct ends all waking. Requests that are still held are answered.
func (k *waking) Destruct() error {
	k.cancel()
	k.wg.Wait()
	return nil
}

// waker is the one goroutine that wakes a workspace.
type waker struct {
	set   *waking
	id    workspace.ID
	entry *route.Entry
	began time.Time
	// over is closed when the waker has ended.
	over chan struct{}

	// Guarded by set.mu. Until and wishUntil are when it gives up, and when it stops
	// wishing; refused is why it was not granted.
	until, wishUntil time.Time
	refused          *service.LimitError
}

// ask has the workspace woken for the next while. Without wish, the request is one
// that wakes nothing, and only takes part in a waking that goes on anyway.
func (k *waking) ask(id workspace.ID, e *route.Entry, timeout time.Duration, wish bool) *waker {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.wakers[id]
	if w == nil {
		w = &waker{set: k, id: id, entry: e, began: now, over: make(chan struct{})}
		k.wakers[id] = w
		if k.ctx.Err() == nil {
			k.wg.Go(w.run)
		} else {
			w.endLocked(nil)
		}
	}
	w.until = later(w.until, now.Add(timeout))
	if wish {
		w.wishUntil = later(w.wishUntil, now.Add(timeout))
	}
	return w
}

// find returns the workspace's waker, and keeps it going when it has one.
func (k *waking) find(id workspace.ID, timeout time.Duration) *waker {
	now := time.Now()
	k.mu.Lock()
	defer k.mu.Unlock()
	w := k.wakers[id]
	if w != nil {
		w.until = later(w.until, now.Add(timeout))
		if w.wishUntil.After(now) {
			w.wishUntil = later(w.wishUntil, now.Add(timeout))
		}
	}
	return w
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// refusal returns why the wish was refused, if it was.
func (w *waker) refusal() *service.LimitError {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	return w.refused
}

// run wishes until the wish is granted, then waits for the application's first
// answer. It ends when the workspace is ready, has failed, or has gone, when the
// wish is refused for good, and when nobody asks any more.
func (w *waker) run() {
	failing := false
	pause := wishRetryMin
	for !w.expired() {
		st := w.entry.State()
		switch {
		case !st.Exists() || st.Ready() || failed(st):
			w.end(nil)
			return
		case st.Route.Desired == workspace.DesiredRunning:
			if st.Running() {
				w.awaitAnswer(st)
			} else {
				w.wait(st, askAgain)
			}
			continue
		case !w.mayWish():
			w.end(nil)
			return
		}
		err := w.wish(st)
		var limit *service.LimitError
		switch {
		case errors.As(err, &limit):
			w.end(limit)
			return
		case err == nil || errors.Is(err, service.ErrOperationInProgress) || errors.Is(err, service.ErrNotFound):
			failing, pause = false, wishRetryMin
			w.set.routes.Refresh(w.id)
			w.wait(st, askAgain)
		default:
			if !failing && w.set.ctx.Err() == nil {
				w.set.log.Error("waking a workspace failed; it is tried again", zap.String("workspace", string(w.id)), zap.Error(err))
			}
			failing = true
			w.wait(st, pause)
			pause = min(2*pause, wishRetryMax)
		}
	}
}

func (w *waker) wish(st *route.State) error {
	ctx, cancel := context.WithTimeout(w.set.ctx, wishTimeout)
	defer cancel()
	actor := service.Actor{UserID: st.Route.OwnerID, Kind: "gateway"}
	return w.set.wishes.SetDesired(ctx, actor, w.id, workspace.DesiredRunning)
}

// wait returns when st is no longer the newest state, after at most d, or when
// nobody waits for the workspace any more. It reports whether st still holds.
func (w *waker) wait(st *route.State, d time.Duration) bool {
	w.set.mu.Lock()
	d = min(d, time.Until(w.until))
	w.set.mu.Unlock()
	timer := time.NewTimer(max(d, 0))
	defer timer.Stop()
	select {
	case <-st.Changed():
		return false
	case <-w.set.ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}

// awaitAnswer looks at the application until it gives a good answer, or until st
// does no longer hold (DESIGN 7).
func (w *waker) awaitAnswer(st *route.State) {
	ctx, cancel := context.WithCancel(w.set.ctx)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	w.set.wg.Go(func() {
		select {
		case <-st.Changed():
			cancel()
		case <-stop:
		}
	})
	for pause := probeMin; ; pause = min(pause*3/2, probeMax) {
		if w.set.probe(ctx, st.Route.Endpoint) {
			w.entry.SetAnswered(st, true)
			return
		}
		if !w.wait(st, pause) || w.late() {
			return
		}
	}
}

// late reports whether the time is up, without ending the waker.
func (w *waker) late() bool {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	return !time.Now().Before(w.until)
}

func (w *waker) mayWish() bool {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	return time.Now().Before(w.wishUntil)
}

// expired ends the waker when nobody has asked for long, or all waking ends.
func (w *waker) expired() bool {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	if w.set.ctx.Err() == nil && time.Now().Before(w.until) {
		return false
	}
	w.endLocked(nil)
	return true
}

func (w *waker) end(refused *service.LimitError) {
	w.set.mu.Lock()
	defer w.set.mu.Unlock()
	w.endLocked(refused)
}

// endLocked is called with set.mu held: nobody can take hold of a waker that has
// ended, except of a refused one, for a moment.
func (w *waker) endLocked(refused *service.LimitError) {
	w.refused = refused
	close(w.over)
	if refused == nil {
		delete(w.set.wakers, w.id)
		return
	}
	time.AfterFunc(refusalKept, func() {
		w.set.mu.Lock()
		defer w.set.mu.Unlock()
		if w.set.wakers[w.id] == w {
			delete(w.set.wakers, w.id)
		}
	})
}

// failed reports whether the workspace waits for somebody to repair it. One whose
// error was reset is on its way.
func failed(st *route.State) bool {
	return st.Route.Phase == workspace.PhaseError && st.Route.ErrorReason != ""
}

// prober looks at whether an application answers.
type prober struct{ client *http.Client }

func newProber() *prober {
	return &prober{&http.Client{
		Timeout: probeTimeout,
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// answers reports whether the application gives a good answer: any but those by
// which servers say that they are not up yet.
func (p *prober) answers(ctx context.Context, endpoint string) bool {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+endpoint+"/", nil)
	if err != nil {
		return false
	}
	req.Header.Set("User-Agent", "codehub-gateway")
	resp, err := p.client.Do(req)
	if err != nil {
		return false
	}
	_ = resp.Body.Close() // nothing of it is read
	switch resp.StatusCode {
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}
