package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// downLimit is how long a cache is trusted after its watch has ended. A cluster ends each watch after a few minutes, so
// downLimit is longer than it takes to open the next watch.
const downLimit = 5 * time.Second

// Cache holds the objects of one kind that a label selector matches. It is safe for concurrent use.
//
// It is a store of client-go's reflector and not an informer, for three reasons. An informer has a queue between the
// reflector and its store, so that a listing right after an outage could still show the objects from before the outage.
// It retries with a fixed backoff of up to a minute. If it panics while it handles an object, the process ends.
type Cache[T object] struct {
	client  *Client
	what    string // such as "Pods", for errors
	changed func(workspace.ID)
	follow  func(ctx context.Context, source string)
	now     func() time.Time // tests replace now and silence before the first use
	silence time.Duration    // how long a watch may be silent

	started sync.Once

	mu       sync.Mutex // guards the fields below
	source   string     // the identity of the cluster that has the objects
	filled   bool
	objects  map[string]T // by name
	of       map[workspace.ID][]T
	watch    *feed[T]  // the open watch, if any
	down     time.Time // when the last complete watch ended
	silent   bool      // the last watch fell silent, see [Cache.fellSilent]
	err      error     // why there is no watch, if known
	progress chan struct{}
	waiting  map[string][]*waiter[T] // by name
}

// waiter waits for a state of one object.
type waiter[T object] struct {
	done func(obj T, exists bool) bool
	met  chan struct{} // closed once done has reported true
}

func newCache[T object, L runtime.Object](c *Client, r *Resource[T, L], what, selector string, strip func(T),
	changed func(workspace.ID)) *Cache[T] {
	k := &Cache[T]{
		client: c, what: what, changed: changed, now: time.Now, silence: quiet,
		progress: make(chan struct{}), waiting: make(map[string][]*waiter[T]),
	}
	k.empty("")
	k.follow = func(ctx context.Context, source string) { mirror(ctx, k, r, selector, strip, source) }
	return k
}

// start begins to follow the objects. It does not block.
func (k *Cache[T]) start() {
	k.started.Do(func() { k.client.task("following the "+k.what, k.keep, nil) })
}

// keep calls run, and calls it again after a panic. Until the objects are followed again, listings fail with the panic
// as their error.
func (k *Cache[T]) keep(ctx context.Context) {
	_ = guard.Keep(ctx, nil, "watch of "+k.what, 0, func(ctx context.Context) error {
		err := guard.Recover(func() error { k.run(ctx); return nil })
		if err != nil {
			k.failed(err)
		}
		return err
	})
}

// run follows the objects until ctx ends. It starts over when another cluster answers.
func (k *Cache[T]) run(ctx context.Context) {
	for pause := time.Duration(0); ctx.Err() == nil; pause = retryMin {
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
		source, err := k.client.Identity(ctx)
		if err != nil {
			k.failed(err)
			continue
		}
		k.begin(source)
		k.follow(ctx, source)
	}
}

// List returns the objects of those workspaces, or all objects if no ids are given. The first call waits for
// the cluster's answer. The error is Unreachable if the cluster has never answered, if another cluster answers,
// or if there has been no watch for more than downLimit.
func (k *Cache[T]) List(ctx context.Context, ids ...workspace.ID) ([]T, error) {
	k.start()
	if err := k.fill(ctx); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := k.fresh(); err != nil {
		return nil, err
	}
	if len(ids) == 0 {
		all := make([]T, 0, len(k.objects))
		for _, obj := range k.objects {
			all = append(all, obj)
		}
		return all, nil
	}
	var some []T
	for _, id := range ids {
		some = append(some, k.of[id]...)
	}
	return some, nil
}

// Await returns once done reports true for the object of that name. It calls done with the current state and with every
// later one, even if that lasts only for a moment. obj is the zero value if the object does not exist. done must not
// use the cache. The error is Unreachable in the same cases as for List, and when ctx ends first.
func (k *Cache[T]) Await(ctx context.Context, name string, done func(obj T, exists bool) bool) error {
	k.start()
	w := &waiter[T]{done: done, met: make(chan struct{})}
	if err := k.fill(ctx); err != nil {
		return err
	}
	k.mu.Lock()
	if obj, exists := k.objects[name]; done(obj, exists) {
		k.mu.Unlock()
		return nil
	}
	k.waiting[name] = append(k.waiting[name], w)
	k.mu.Unlock()
	defer k.leave(name, w)
	check := time.NewTicker(time.Second)
	defer check.Stop()
	for {
		select {
		case <-w.met:
			return nil
		case <-ctx.Done():
			return Wrap(fmt.Sprintf("waiting for news of %s in the watch of %s", name, k.what), ctx.Err())
		case <-k.client.ctx.Done():
			return errClosed
		case <-check.C:
			k.mu.Lock()
			err := k.fresh()
			k.mu.Unlock()
			if err != nil {
				return err
			}
		}
	}
}

func (k *Cache[T]) leave(name string, w *waiter[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.waiting[name] = slices.DeleteFunc(k.waiting[name], func(o *waiter[T]) bool { return o == w })
	if len(k.waiting[name]) == 0 {
		delete(k.waiting, name)
	}
}

// errClosed is the error after Close.
var errClosed = errors.New("the connection to the Kubernetes cluster was closed")

// fill waits until the cache is filled, or returns the error of the last attempt to fill it.
func (k *Cache[T]) fill(ctx context.Context) error {
	for {
		k.mu.Lock()
		filled, err, progress := k.filled, k.err, k.progress
		k.mu.Unlock()
		if filled {
			return nil
		}
		if err != nil {
			return k.unreachable(err)
		}
		select {
		case <-progress:
		case <-ctx.Done():
			return Wrap("listing the "+k.what, ctx.Err())
		case <-k.client.ctx.Done():
			return errClosed
		}
	}
}

// fresh returns an error if the cache may be out of date. The caller holds the lock.
func (k *Cache[T]) fresh() error {
	id, err := k.client.watch.ID()
	switch {
	case k.client.ctx.Err() != nil:
		return errClosed
	case err != nil:
		return k.unreachable(err)
	case !k.filled || id != k.source:
		return k.unreachable(errors.New("another cluster answers, and its objects are not listed yet"))
	case k.stale():
		cause := k.err
		if cause == nil {
			cause = errors.New("the cluster ended the last one")
		}
		return k.unreachable(fmt.Errorf("there has been no watch since %s: %w", k.down.UTC().Format(time.RFC3339),
			cause))
	}
	return nil
}

// following reports whether a watch keeps the objects current. The caller holds the lock.
func (k *Cache[T]) following() bool { return k.watch != nil && k.watch.complete }

// stale reports whether there has been no watch for too long. The caller holds the lock.
func (k *Cache[T]) stale() bool { return !k.following() && k.now().Sub(k.down) > downLimit }

// unreachable gives err the reason Unreachable, whatever reason err had, because the state of the objects is unknown
// (SPEC 2).
func (k *Cache[T]) unreachable(err error) error {
	err = Wrap("following the "+k.what, err)
	if workspace.ReasonOf(err) == workspace.ReasonUnreachable {
		return err
	}
	return workspace.Fail(workspace.ReasonUnreachable, err)
}

// empty forgets all objects. The caller holds the lock, or has not shared the cache yet.
func (k *Cache[T]) empty(source string) {
	k.source, k.filled = source, false
	k.objects, k.of = make(map[string]T), make(map[workspace.ID][]T)
}

// begin prepares the cache for that cluster's objects.
func (k *Cache[T]) begin(source string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.source != source {
		k.empty(source)
	}
}

// failed records why there is no watch.
func (k *Cache[T]) failed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	k.moved()
}

// opened records that a watch has begun. If a watch sends all objects first, the cache is complete only when
// [Cache.Replace] is called: until then, it may hold the objects from before an outage.
func (k *Cache[T]) opened(f *feed[T], sendsFirst bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.following() { // the last watch is being stopped
		k.down = k.now()
	}
	k.watch = f
	if !sendsFirst {
		f.complete, k.err = true, nil
	}
}

// closed records that a watch has ended.
func (k *Cache[T]) closed(f *feed[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.watch != f {
		return
	}
	if k.following() {
		k.down = k.now()
	}
	k.watch = nil
}

// missed reports whether a new watch must begin with a list of all objects and cannot continue where the last watch
// ended. That is so if the last watch fell silent, or ended so long ago that the cache may be far behind.
func (k *Cache[T]) missed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.silent || k.stale()
}

// fellSilent records that a watch sent not even bookmarks. A cluster that was restored from a backup behaves like this:
// it sends no event until its versions reach the one at which the watch began.
func (k *Cache[T]) fellSilent() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silent = true
}

// moved wakes the callers that wait for the cache to be filled. The caller holds the lock.
func (k *Cache[T]) moved() {
	close(k.progress)
	k.progress = make(chan struct{})
}

// Add implements [cache.ReflectorStore], as do the methods below. The reflector passes objects of type T only.
func (k *Cache[T]) Add(obj any) error { return k.note(obj.(T), true) }

// Update implements [cache.ReflectorStore].
func (k *Cache[T]) Update(obj any) error { return k.note(obj.(T), true) }

// Delete implements [cache.ReflectorStore].
func (k *Cache[T]) Delete(obj any) error { return k.note(obj.(T), false) }

func (k *Cache[T]) note(obj T, exists bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set(obj.GetName(), obj, exists)
	return nil
}

// Replace implements [cache.ReflectorStore]: list is all objects.
func (k *Cache[T]) Replace(list []any, _ string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := maps.Clone(k.objects)
	for _, item := range list {
		obj := item.(T)
		name := obj.GetName()
		delete(gone, name)
		if was, known := k.objects[name]; !known || was.GetUID() != obj.GetUID() ||
			was.GetResourceVersion() != obj.GetResourceVersion() {
			k.set(name, obj, true)
		}
	}
	for name, obj := range gone {
		k.set(name, obj, false)
	}
	k.filled, k.err, k.silent = true, nil, false
	if k.watch != nil {
		k.watch.complete = true
	} else {
		k.down = k.now() // the reflector opens a watch next
	}
	k.moved()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (k *Cache[T]) Resync() error { return nil }

// set stores the object under its name. If the object does not exist any more, set removes the stored one. The caller
// holds the lock.
func (k *Cache[T]) set(name string, obj T, exists bool) {
	if was, known := k.objects[name]; known {
		id := workspaceOf(was)
		others := slices.DeleteFunc(slices.Clone(k.of[id]), func(o T) bool { return o.GetName() == name })
		if len(others) > 0 {
			k.of[id] = others
		} else {
			delete(k.of, id)
		}
		k.tell(id)
	}
	if exists {
		k.objects[name] = obj
		id := workspaceOf(obj)
		k.of[id] = append(k.of[id], obj)
		k.tell(id)
	} else {
		delete(k.objects, name)
		obj = *new(T)
	}
	if waiting, some := k.waiting[name]; some {
		k.waiting[name] = slices.DeleteFunc(waiting, func(w *waiter[T]) bool {
			met := w.done(obj, exists)
			if met {
				close(w.met)
			}
			return met
		})
	}
}

// tell sends a hint about a change, except while the cache is being filled for the first time.
func (k *Cache[T]) tell(id workspace.ID) {
	if k.filled && id != "" {
		k.changed(id)
	}
}

func workspaceOf(o metav1.Object) workspace.ID {
	return workspace.ID(o.GetLabels()[spec.LabelWorkspace])
}
