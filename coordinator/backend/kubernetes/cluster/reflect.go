package cluster

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"github.com/codehub/gateway/coordinator/guard"
)

const (
	// retryMin and retryMax bound the time between two attempts to follow objects.
	retryMin = 200 * time.Millisecond
	retryMax = 3 * time.Second
	// page is the page size of a listing, for clusters that do not stream the objects.
	page = 500
	// quiet is how long a watch may be silent. A cluster sends a bookmark every minute, give or take two seconds. If
	// none comes, the server hangs behind an open connection. No lower layer notices this, because the server's TCP
	// still acknowledges. If the bookmark was merely late, the mistake costs one list.
	quiet = 90 * time.Second
)

// errMoved means that a different cluster answers than at first.
var errMoved = errors.New("another cluster answers")

// mirror keeps k in step with the cluster whose identity is source, until ctx ends or another cluster answers.
func mirror[T object, L runtime.Object](ctx context.Context, k *Cache[T], r *Resource[T, L], selector string,
	strip func(T), source string) {
	// The cache's errors already contain what the library would log.
	ctx, stop := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	defer stop()
	// known fails unless that cluster has answered every request so far.
	known := func() error {
		id, err := k.client.watch.ID()
		if err == nil && id != source {
			stop()
			err = errMoved
		}
		return err
	}
	lw := &cache.ListWatch{
		ListWithContextFunc: func(_ context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.LabelSelector = selector
			if o.Continue == "" {
				o.ResourceVersion = "" // what etcd holds, not what an API server has cached
			}
			list, err := r.List(ctx, o)
			if err == nil {
				err = known()
			}
			if err != nil {
				k.failed(err)
				return nil, err
			}
			return list, meta.EachListItem(list, func(obj runtime.Object) error {
				strip(obj.(T))
				return nil
			})
		},
		WatchFuncWithContext: func(_ context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.LabelSelector = selector
			sendsFirst := o.SendInitialEvents != nil && *o.SendInitialEvents
			switch {
			case sendsFirst:
				o.ResourceVersion = "" // as above
			case k.missed():
				return nil, apierrors.NewResourceExpired("there was no watch for too long")
			}
			w, err := r.Watch(ctx, o)
			if sendsFirst && apierrors.IsInvalid(err) {
				return nil, err // the cluster is too old for this kind of watch
			}
			if err == nil {
				if err = known(); err != nil {
					w.Stop()
				}
			}
			if err != nil {
				k.failed(err)
				return nil, err
			}
			return newFeed(k, w, strip, sendsFirst), nil
		},
	}
	discard := klog.Logger{}
	reflector := cache.NewReflectorWithOptions(lw, blank[T](), k, cache.ReflectorOptions{
		Logger: &discard, Name: k.what, Clock: ctxClock{ctx: ctx},
		Backoff: &wait.Backoff{Duration: retryMin, Cap: retryMax, Steps: 10, Factor: 2, Jitter: 0.5},
	})
	reflector.WatchListPageSize = page
	reflector.RunWithContext(ctx)
}

// feed is a watch that strips its objects and tells the cache when it opens and closes.
type feed[T object] struct {
	events   chan watch.Event
	stop     context.CancelFunc
	complete bool // it has sent all objects, or continues where the last watch ended; guarded by the cache's lock
}

func newFeed[T object](k *Cache[T], w watch.Interface, strip func(T), sendsFirst bool) *feed[T] {
	ctx, stop := context.WithCancel(context.Background())
	f := &feed[T]{events: make(chan watch.Event), stop: stop}
	k.opened(f, sendsFirst)
	k.client.tasks.Add(1)
	go func() {
		defer k.client.tasks.Done()
		defer close(f.events)
		defer w.Stop()
		defer k.closed(f)
		defer stop()
		// A panic ends the watch, and another one begins.
		guard.Run("watching the "+k.what, func() { f.pass(ctx, k, w, strip) })
	}()
	return f
}

// pass forwards the events of the watch until the watch falls silent, the watch ends, or ctx ends.
func (f *feed[T]) pass(ctx context.Context, k *Cache[T], w watch.Interface, strip func(T)) {
	silence := time.NewTimer(k.silence)
	defer silence.Stop()
	for {
		var event watch.Event
		var ok bool
		select {
		case event, ok = <-w.ResultChan():
		case <-silence.C:
			k.fellSilent()
		case <-ctx.Done():
		}
		if !ok {
			return
		}
		silence.Reset(k.silence)
		// A bookmark keeps its annotations: one of them marks the end of the initial objects.
		if o, is := event.Object.(T); is && event.Type != watch.Bookmark {
			strip(o)
		}
		select {
		case f.events <- event:
		case <-ctx.Done():
			return
		}
	}
}

// Stop implements [watch.Interface].
func (f *feed[T]) Stop() { f.stop() }

// ResultChan implements [watch.Interface].
func (f *feed[T]) ResultChan() <-chan watch.Event { return f.events }

// ctxClock is a clock whose waits end with ctx.
type ctxClock struct {
	clock.RealClock
	ctx context.Context
}

// After implements [clock.Clock].
func (c ctxClock) After(d time.Duration) <-chan time.Time {
	ctx, cancel := context.WithTimeout(c.ctx, d)
	due := make(chan time.Time, 1)
	context.AfterFunc(ctx, func() { cancel(); due <- time.Now() })
	return due
}
