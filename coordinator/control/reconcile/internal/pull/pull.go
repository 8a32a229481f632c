// Package pull pulls images concurrently with the controller, so that a large image delays only the workspaces that
// need it.
//
// It owns the number of concurrent pulls, their progress, and the end of a pull without progress. It pulls each image
// once, however many workspaces wait for it. Images for which no workspace waits are pulled last. It must not know
// workspaces, nor decide the consequences of a failure.
package pull

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/guard"
)

// notice is the shortest time between two changes of the progress that waiting
// workspaces show.
const notice = 3 * time.Second

// Puller fetches one image; see the container backend's interface.
type Puller func(ctx context.Context, image string, progress func(done, total int64)) error

// Limits bound the pulls from now on.
type Limits struct {
	// Max is how many pulls run at the same time.
	Max int
	// Stall ends a pull without progress for that long.
	Stall time.Duration
}

// ErrStalled is in the error of a pull that was ended because it got no further.
var ErrStalled = errors.New("it got no further")

// Pool runs the pulls. Its methods are safe for concurrent use.
type Pool struct {
	pull   Puller
	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex // guards the following, and the pulls
	current map[string]*Pull
	queue   []*Pull
	ahead   []*Pull // queued by Ahead, and joined by nobody
	running int     // without the one that began ahead
	early   bool    // one that began ahead runs
	limits  Limits
}

// Pull is one pull of an image. It runs until it ends or all its waiters have left.
type Pull struct {
	status  Status
	waiting []func()
	joined  int                // those who have joined it and have not left
	kept    bool               // Ahead wants it, whoever leaves
	cancel  context.CancelFunc // once it runs
	ended   chan struct{}      // closed at its end
}

// Status is how far a pull is.
type Status struct {
	Image string
	// Queued means that others are pulled first.
	Queued bool
	// Done of Total bytes have arrived. Done is 0 before anything is known, and Total is 0 while it is unknown.
	Done, Total int64
	// Ended means that the pull has ended; Err is its result.
	Ended bool
	Err   error
}

// New returns a pool, which must be closed.
func New(pull Puller, limits Limits) *Pool {
	ctx, cancel := context.WithCancel(context.Background())
	return &Pool{pull: pull, ctx: ctx, cancel: cancel, current: make(map[string]*Pull), limits: limits}
}

// Close ends all pulls and returns when none is running.
func (p *Pool) Close() {
	p.cancel()
	p.wg.Wait()
}

// Apply changes the limits. Pulls that run keep theirs.
func (p *Pool) Apply(limits Limits) {
	p.mu.Lock()
	p.limits = limits
	p.mu.Unlock()
	p.next()
}

// Join returns the pull of the image that is in progress, or queues a new one. The pool calls changed, which must not
// block, after each change of the pull's status.
func (p *Pool) Join(image string, changed func()) *Pull {
	return p.begin(image, func(pull *Pull) {
		pull.waiting, pull.joined = append(pull.waiting, changed), pull.joined+1
	})
}

// Begin queues the pull of an image that will be needed soon. The pull has no waiters yet. It still continues: it ends
// early only if waiters join and all of them leave again.
func (p *Pool) Begin(image string) { p.begin(image, func(*Pull) {}) }

// begin returns the pull of the image that is in progress, or queues a new one. It calls note with the pull first.
func (p *Pool) begin(image string, note func(*Pull)) *Pull {
	p.mu.Lock()
	pull := p.get(image, &p.queue)
	note(pull)
	if at := slices.Index(p.ahead, pull); at >= 0 {
		p.ahead = slices.Delete(p.ahead, at, at+1)
		p.queue = append(p.queue, pull)
	}
	p.mu.Unlock()
	p.next()
	return pull
}

// Leave removes the caller from the pull's waiters. When the last waiter leaves, the pull ends and frees its place,
// because an image that was chosen by mistake may never arrive.
func (p *Pool) Leave(pull *Pull) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pull.joined--; pull.joined > 0 || pull.kept || p.current[pull.status.Image] != pull {
		return
	}
	delete(p.current, pull.status.Image) // who wants it from now on pulls it anew
	if at := slices.Index(p.queue, pull); at >= 0 {
		p.queue = slices.Delete(p.queue, at, at+1)
		return
	}
	pull.cancel()
}

// Ahead pulls an image without a waiter, and returns at the end of the pull. A new pull begins only while no other one
// runs or is queued, and it takes no place away from pulls that come later.
func (p *Pool) Ahead(ctx context.Context, image string) error {
	p.mu.Lock()
	pull := p.get(image, &p.ahead)
	pull.kept = true
	p.mu.Unlock()
	p.next()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-pull.ended:
		return p.Status(pull).Err
	}
}

// get returns the pull of the image that is in progress, or a new one, which it adds to the end of the queue.
func (p *Pool) get(image string, queue *[]*Pull) *Pull {
	pull := p.current[image]
	if pull == nil {
		pull = &Pull{status: Status{Image: image, Queued: true}, ended: make(chan struct{})}
		p.current[image] = pull
		*queue = append(*queue, pull)
	}
	return pull
}

// Status returns how far a pull is.
func (p *Pool) Status(pull *Pull) Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	return pull.status
}

// next starts queued pulls as far as the limit allows.
func (p *Pool) next() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.queue) > 0 && p.running < max(p.limits.Max, 1) {
		p.running++
		p.start(&p.queue, func() { p.running-- })
	}
	if p.running == 0 && !p.early && len(p.ahead) > 0 {
		p.early = true
		p.start(&p.ahead, func() { p.early = false })
	}
}

// start starts the first pull of the queue. When the pull has ended, ended is called with the lock held.
func (p *Pool) start(queue *[]*Pull, ended func()) {
	pull := (*queue)[0]
	*queue = (*queue)[1:]
	pull.status.Queued = false
	stall := p.limits.Stall
	ctx, cancel := context.WithCancelCause(p.ctx)
	pull.cancel = func() { cancel(nil) }
	p.wg.Go(func() {
		defer cancel(nil)
		guard.Run("pulling an image", func() { p.run(ctx, cancel, pull, stall, ended) })
	})
}

// run does one pull, and at its end calls ended with the lock held.
func (p *Pool) run(ctx context.Context, cancel context.CancelCauseFunc, pull *Pull, stall time.Duration, ended func()) {
	stalled := time.AfterFunc(stall, func() { cancel(fmt.Errorf("%w for %s", ErrStalled, stall)) })
	defer stalled.Stop()
	var last int64
	var shown time.Time
	err := guard.Call(guard.Task, func() error {
		return p.pull(ctx, pull.status.Image, func(done, total int64) {
			if done == last {
				return
			}
			last = done
			stalled.Reset(stall)
			if time.Since(shown) >= notice {
				shown = time.Now()
				p.report(pull, func() { pull.status.Done, pull.status.Total = done, max(total, 0) })
			}
		})
	})
	if cause := context.Cause(ctx); err != nil && cause != nil && !errors.Is(cause, context.Canceled) {
		err = cause
	}
	if err != nil {
		err = fmt.Errorf("pulling image %s: %w", pull.status.Image, err)
	}
	defer p.next()
	p.report(pull, func() {
		pull.status.Ended, pull.status.Err = true, err
		if p.current[pull.status.Image] == pull {
			delete(p.current, pull.status.Image)
		}
		close(pull.ended)
		ended()
	})
}

// report changes the pull, and calls the function changed that each waiter passed to Join.
func (p *Pool) report(pull *Pull, change func()) {
	p.mu.Lock()
	change()
	waiting := pull.waiting
	p.mu.Unlock()
	for _, changed := range waiting {
		changed()
	}
}
