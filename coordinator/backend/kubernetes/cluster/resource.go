package cluster

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"sync/atomic"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
)

// object is the common interface of Kubernetes' objects.
type object interface {
	runtime.Object
	metav1.Object
}

// Resource makes requests for one kind of object in one namespace: T is the object, such as *corev1.Pod, and L a list
// of them. Its methods are the same as those of Kubernetes' generated clients. Package gentype also has such methods,
// but it depends on the code for OpenAPI documents. Errors are those of the API, for [Wrap].
type Resource[T object, L runtime.Object] struct {
	client    rest.Interface
	params    runtime.ParameterCodec
	namespace string
	name      string // such as "pods"
	explain   func(error) error
}

// Get returns the object of that name. Without a resource version in the options it is a quorum read.
func (r *Resource[T, L]) Get(ctx context.Context, name string, o metav1.GetOptions) (T, error) {
	return r.into(r.to(r.client.Get()).Name(name).VersionedParams(&o, r.params).Do(ctx))
}

// List returns objects. Without a resource version in the options it is a quorum read.
func (r *Resource[T, L]) List(ctx context.Context, o metav1.ListOptions) (L, error) {
	list := blank[L]()
	err := r.to(r.client.Get()).VersionedParams(&o, r.params).Do(ctx).Into(list)
	return list, r.explain(err)
}

// Watch returns the events of objects, until the caller stops it or the cluster ends it.
func (r *Resource[T, L]) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	o.Watch = true
	var begun atomic.Bool
	w, err := r.to(r.client.Get()).VersionedParams(&o, r.params).Watch(context.WithValue(ctx, begins{}, &begun))
	if err == nil && !begun.Load() {
		w.Stop()
		return nil, fmt.Errorf("watching %s: %w", r.name, io.ErrUnexpectedEOF)
	}
	return w, r.explain(err)
}

// Create creates the object, and returns it as stored.
func (r *Resource[T, L]) Create(ctx context.Context, obj T, o metav1.CreateOptions) (T, error) {
	return r.into(r.to(r.client.Post()).VersionedParams(&o, r.params).Body(obj).Do(ctx))
}

// Patch changes the object of that name, and returns it as stored.
func (r *Resource[T, L]) Patch(ctx context.Context, name string, pt types.PatchType, data []byte, o metav1.PatchOptions,
	subresources ...string) (T, error) {
	return r.into(r.to(r.client.Patch(pt)).Name(name).SubResource(subresources...).VersionedParams(&o,
		r.params).Body(data).Do(ctx))
}

// Delete requests the removal of the object of that name. The object may still exist for some time.
func (r *Resource[T, L]) Delete(ctx context.Context, name string, o metav1.DeleteOptions) error {
	return r.explain(r.to(r.client.Delete()).Name(name).Body(&o).Do(ctx).Error())
}

func (r *Resource[T, L]) to(q *rest.Request) *rest.Request {
	return q.NamespaceIfScoped(r.namespace, r.namespace != "").Resource(r.name)
}

func (r *Resource[T, L]) into(result rest.Result) (T, error) {
	obj := blank[T]()
	err := result.Into(obj)
	return obj, r.explain(err)
}

// blank returns a pointer to a new, empty object.
func blank[T any]() T { return reflect.New(reflect.TypeFor[T]().Elem()).Interface().(T) }
