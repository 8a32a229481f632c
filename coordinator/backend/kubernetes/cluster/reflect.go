package cluster

import (
	"context"
	"errors"
	"fmt"
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
	// retryMin and retryMax are the time between two attempts to follow objects.
	retryMin = 200 * time.Millisecond
	retryMax = 3 * time.Second
	// page is how many objects a list is asked for at once, where the cluster does not
	// stream them.
	page = 500
	// quiet is how long a watch may be silent. The cluster sends a bookmark every minute, give or
	// take two seconds. One that does not has stopped working behind an open connection. Nothing
	// below tells that: a server that hangs still acknowledges. One that was merely late costs a
	// list.
	quiet = 90 * time.Second
)

// errMoved says that another cluster has taken the place of the one that was asked first.
var errMoved = errors.New("another cluster answers")

// reflect keeps k as the cluster of that identity has it, until ctx ends or another cluster
// answers.
func reflect[T object, L runtime.Object](ctx context.Context, k *Cache[T], r *Resource[T, L], selector string,
	strip func(T), source string) {
	// The library's messages say what the cache's errors say.
	ctx, stop := context.WithCancel(klog.NewContext(ctx, klog.Logger{}))
	defer stop()
	// known fails unless all that was asked so far was answered by that cluster.
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
				o.ResourceVersion = "" // what is stored, not what some server of the cluster remembers
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
				o, ok := obj.(T)
				if !ok {
					return fmt.Errorf("the list of %s has a %T", k.what, obj)
				}
				strip(o)
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
				return nil, apierrors.NewResourceExpired("the watch was away for too long")
			}
			w, err := r.Watch(ctx, o)
			if sendsFirst && apierrors.IsInvalid(err) {
				return nil, err // the cluster does not know this form of a watch yet
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
	reflector := cache.NewReflectorWithOptions(lw, r.one(), k, cache.ReflectorOptions{
		Logger: &discard, Name: k.what, Clock: ctxClock{ctx: ctx},
		Backoff: &wait.Backoff{Duration: retryMin, Cap: retryMax, Steps: 10, Factor: 2, Jitter: 0.5},
	})
	reflector.WatchListPageSize = page
	reflector.RunWithContext(ctx)
}

// feed is a watch whose objects are stripped, and which the cache knows to be open.
type feed[T object] struct {
	watch.Interface
	events  chan watch.Event
	stop    context.CancelFunc
	counted bool // guarded by the cache's lock
}

func newFeed[T object](k *Cache[T], w watch.Interface, strip func(T), sendsFirst bool) *feed[T] {
	f := &feed[T]{Interface: w, events: make(chan watch.Event)}
	ctx, stop := context.WithCancel(context.Background())
	f.stop = stop
	k.opened(f, sendsFirst)
	k.client.tasks.Add(1)
	go func() {
		defer k.client.tasks.Done()
		defer close(f.events)
		defer w.Stop()
		defer k.closed(f)
		defer stop()
		silence := time.NewTimer(k.silence)
		defer silence.Stop()
		// After a panic the watch has ended, and another one begins.
		guard.Run("watching the "+k.what, func() { f.pass(ctx, k, w, strip, silence) })
	}()
	return f
}

// pass passes on what the watch tells until it or ctx ends.
func (f *feed[T]) pass(ctx context.Context, k *Cache[T], w watch.Interface, strip func(T), silence *time.Timer) {
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
		// A bookmark's annotation says that all there was in the beginning has been sent.
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
