package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

// downLimit is how long a cache is trusted after its watch has ended. It is longer than it takes
// to begin another one: a cluster ends each watch every few minutes.
const downLimit = 5 * time.Second

// Cache holds the objects of one kind that a label selector names. It is safe for
// concurrent use.
type Cache[T object] struct {
	client  *Client
	what    string // such as "Pods", for errors
	changed func(workspace.ID)
	follow  func(ctx context.Context, source string)
	now     func() time.Time // tests replace it, and silence, before the first use
	silence time.Duration    // how long a watch may be silent

	started sync.Once

	mu       sync.Mutex // guards what follows
	source   string     // the identity of the cluster that the objects are of
	filled   bool
	objects  map[string]T // by name
	of       map[workspace.ID][]T
	watches  int       // how many have begun and not ended
	arriving *feed[T]  // the watch that sends what there is first, until it has
	down     time.Time // since when there is none
	silent   bool      // the last one was silent, see [Cache.fellSilent]
	err      error     // why, if it is known
	progress chan struct{}
	waiting  map[string][]*waiter[T] // by name
}

// waiter waits for a state of one object.
type waiter[T object] struct {
	done func(obj T, exists bool) bool
	met  chan struct{} // closed when it is met
}

func newCache[T object, L runtime.Object](c *Client, r *Resource[T, L], what, selector string, strip func(T),
	changed func(workspace.ID)) *Cache[T] {
	k := &Cache[T]{
		client: c, what: what, changed: changed, now: time.Now, silence: quiet,
		progress: make(chan struct{}), waiting: make(map[string][]*waiter[T]),
	}
	k.empty("")
	k.follow = func(ctx context.Context, source string) { reflect(ctx, k, r, selector, strip, source) }
	return k
}

// start begins to follow the objects. It returns at once.
func (k *Cache[T]) start() {
	k.started.Do(func() { k.client.task("following the "+k.what, k.keep, nil) })
}

// keep is run, again after a panic. Until the objects are followed again, the panic is why they are not known.
func (k *Cache[T]) keep(ctx context.Context) {
	_ = guard.Keep(ctx, nil, "watch of "+k.what, 0, func(ctx context.Context) error {
		err := guard.Recover(func() error { k.run(ctx); return nil })
		if err != nil {
			k.failed(err)
		}
		return err
	})
}

// run follows the objects until ctx ends, from anew when another cluster has taken the
// former one's place.
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

// List returns the objects of those workspaces, or all of them without ids. Before the first
// answer of the cluster it waits for that. The error is Unreachable if the cluster has never
// answered, or if another cluster answers. It is so, too, if there has been no watch for longer
// than a few seconds.
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

// Await returns once done reports true for the object of that name, at once if it does so now. obj
// is the zero value if it does not exist. done is asked about every state of the object from now
// on, also one that does not last; it must not use the cache. The error is Unreachable as for List,
// and when ctx ends before.
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

// errClosed is the error of a client that was closed.
var errClosed = errors.New("the connection to the Kubernetes cluster was closed")

// fill waits until the cache has been filled. It returns the error of an attempt to.
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

// fresh returns an error unless what the cache holds may be believed. The caller holds the
// lock.
func (k *Cache[T]) fresh() error {
	id, err := k.client.watch.ID()
	switch {
	case k.client.ctx.Err() != nil:
		return errClosed
	case err != nil:
		return k.unreachable(err)
	case !k.filled || id != k.source:
		return k.unreachable(errors.New("another cluster answers, which has not been asked yet"))
	case k.watches == 0 && k.now().Sub(k.down) > downLimit:
		cause := k.err
		if cause == nil {
			cause = errors.New("the cluster has ended it")
		}
		return k.unreachable(fmt.Errorf("there has been no watch since %s: %w", k.down.UTC().Format(time.RFC3339),
			cause))
	}
	return nil
}

// unreachable is the error while the cluster says nothing about the objects, also where its own
// error is another. Nothing is known of them then (SPEC 2).
func (k *Cache[T]) unreachable(err error) error {
	err = Wrap("following the "+k.what, err)
	if workspace.ReasonOf(err) == workspace.ReasonUnreachable {
		return err
	}
	return workspace.Fail(workspace.ReasonUnreachable, err)
}

// empty forgets all objects. The caller holds the lock, or is the only one that knows the cache.
func (k *Cache[T]) empty(source string) {
	k.source, k.filled = source, false
	k.objects, k.of = make(map[string]T), make(map[workspace.ID][]T)
}

// begin prepares for objects of that cluster.
func (k *Cache[T]) begin(source string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.source != source {
		k.empty(source)
	}
}

// failed notes why there is no watch.
func (k *Cache[T]) failed(err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.err = err
	k.moved()
}

// opened notes that a watch has begun. One that sends what there is first counts from
// [Cache.Replace] on: until then the objects may be those from before an outage.
func (k *Cache[T]) opened(f *feed[T], sendsFirst bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if sendsFirst {
		k.arriving = f
		return
	}
	k.count(f)
}

// count counts a watch. The caller holds the lock.
func (k *Cache[T]) count(f *feed[T]) {
	f.counted = true
	k.watches++
	k.err = nil
}

// closed notes that a watch has ended.
func (k *Cache[T]) closed(f *feed[T]) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.arriving == f {
		k.arriving = nil
	}
	if !f.counted {
		return
	}
	if k.watches--; k.watches == 0 {
		k.down = k.now()
	}
}

// missed reports whether a watch must not go on where the last one ended. Either it was silent, or
// there was none for so long that it is unknown when the cache catches up.
func (k *Cache[T]) missed() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.silent || k.watches == 0 && k.now().Sub(k.down) > downLimit
}

// fellSilent notes that a watch did not even send bookmarks. A cluster that was restored from a
// backup behaves so. It tells of nothing before its versions are those again where the watch has
// begun.
func (k *Cache[T]) fellSilent() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.silent = true
}

// moved wakes what waits for the cache to be filled. The caller holds the lock.
func (k *Cache[T]) moved() {
	close(k.progress)
	k.progress = make(chan struct{})
}

// Add implements [cache.ReflectorStore], as the following methods do.
func (k *Cache[T]) Add(obj any) error { return k.put(obj) }

// Update implements [cache.ReflectorStore].
func (k *Cache[T]) Update(obj any) error { return k.put(obj) }

// Delete implements [cache.ReflectorStore].
func (k *Cache[T]) Delete(obj any) error {
	o, ok := obj.(T)
	if !ok {
		return fmt.Errorf("the watch of %s tells of a %T", k.what, obj)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set(o.GetName(), nil)
	return nil
}

func (k *Cache[T]) put(obj any) error {
	o, ok := obj.(T)
	if !ok {
		return fmt.Errorf("the watch of %s tells of a %T", k.what, obj)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.set(o.GetName(), &o)
	return nil
}

// Replace implements [cache.ReflectorStore]: the cache holds all objects now.
func (k *Cache[T]) Replace(list []any, _ string) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	gone := make(map[string]struct{}, len(k.objects))
	for name := range k.objects {
		gone[name] = struct{}{}
	}
	for _, obj := range list {
		o, ok := obj.(T)
		if !ok {
			return fmt.Errorf("the list of %s has a %T", k.what, obj)
		}
		name := o.GetName()
		delete(gone, name)
		if was, known := k.objects[name]; !known || was.GetUID() != o.GetUID() ||
			was.GetResourceVersion() != o.GetResourceVersion() {
			k.set(name, &o)
		}
	}
	for name := range gone {
		k.set(name, nil)
	}
	k.filled, k.err, k.silent = true, nil, false
	if k.arriving != nil {
		k.count(k.arriving)
		k.arriving = nil
	} else {
		k.down = k.now() // the watch follows
	}
	k.moved()
	return nil
}

// Resync implements [cache.ReflectorStore].
func (k *Cache[T]) Resync() error { return nil }

// set notes what the object of that name is now; nil means that there is none. The caller
// holds the lock.
func (k *Cache[T]) set(name string, now *T) {
	was, known := k.objects[name]
	if known {
		id := workspaceOf(was)
		others := slices.DeleteFunc(slices.Clone(k.of[id]), func(o T) bool { return o.GetName() == name })
		if len(others) > 0 {
			k.of[id] = others
		} else {
			delete(k.of, id)
		}
		k.tell(id)
	}
	if now == nil {
		delete(k.objects, name)
	} else {
		k.objects[name] = *now
		id := workspaceOf(*now)
		k.of[id] = append(k.of[id], *now)
		k.tell(id)
	}
	for _, w := range k.waiting[name] {
		var obj T
		if now != nil {
			obj = *now
		}
		if w.done != nil && w.done(obj, now != nil) {
			w.done = nil
			close(w.met)
		}
	}
}

// tell sends a hint, but not for what was there in the beginning.
func (k *Cache[T]) tell(id workspace.ID) {
	if k.filled && id != "" {
		k.changed(id)
	}
}

func workspaceOf(o metav1.Object) workspace.ID {
	return workspace.ID(o.GetLabels()[spec.LabelWorkspace])
}
