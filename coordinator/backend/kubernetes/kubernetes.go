package kubernetes

import (
	"cmp"
	"context"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Backend implements [backend.Core] in one namespace of a cluster. It is safe for concurrent use. Several processes may
// use the same installation at once: they synchronise through the cluster alone.
type Backend struct {
	api    *cluster.Client
	opts   spec.Options
	caches *cluster.Caches
	// settings is the hash of opts: see [Backend.outdated].
	settings string
	// outcomes says how each job ended. The keys are the uids of the jobs' Pods or, for a job without a Pod, of its
	// Job. They never change.
	outcomes backend.Outcomes
	// reports has the output of running jobs, by the uids of their Pods. refusals has the reasons why the cluster
	// refuses the Pods of jobs, by the uids of the Jobs.
	reports  backend.Reports
	refusals backend.Memo[refusal]
	// jobCPU is the CPU limit that storage jobs get because the namespace requires one and the settings have none; nil
	// if no limit is needed.
	jobCPU   atomic.Pointer[resource.Quantity]
	noQuota  atomic.Pointer[time.Time] // until then nobody looks for a quota of storage
	isolated isolated
	resolve  func(ctx context.Context, network, host string) ([]netip.Addr, error) // looks a name up
}

// New returns a backend, or an error with everything that is wrong with the options. It does not contact the cluster:
// the first call connects.
func New(o Options) (backend.Backend, error) {
	if err := o.Validate(); err != nil {
		return backend.Backend{}, err
	}
	api, err := cluster.Connect(o.Options)
	if err != nil {
		return backend.Backend{}, err
	}
	o.Spec.GatewayNamespace = cmp.Or(o.Spec.GatewayNamespace, cluster.PodNamespace())
	selector := selectorOf(map[string]string{spec.LabelInstallation: o.Spec.Installation})
	b := &Backend{api: api, opts: o.Spec, caches: api.Follow(selector), settings: spec.Settings(o.Spec),
		resolve: net.DefaultResolver.LookupNetIP}
	return backend.Backend{Core: b, KeepIsolated: b.KeepIsolated, RemoveFinalizers: b.RemoveFinalizers, Outdated: b.Outdated}, nil
}

// Close implements [backend.Core].
func (b *Backend) Close() error { return b.api.Close() }

// Identity implements [backend.Core]. The namespace is part of the identity: another namespace of the same cluster has
// none of this installation's objects, just as another cluster has none.
func (b *Backend) Identity(ctx context.Context) (string, error) {
	id, err := b.api.Identity(ctx)
	if err != nil || id == "" {
		return "", err
	}
	return id + "/" + b.api.Namespace(), nil
}

// owns reports whether the object is the workspace's object of that kind.
func (b *Backend) owns(o metav1.Object, id workspace.ID, kind string) bool {
	return spec.Owns(o.GetLabels(), b.opts.Installation, id, kind)
}

// selectorOf selects objects that have all of these labels.
func selectorOf(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, k+"="+labels[k])
	}
	return strings.Join(parts, ",")
}

// While another process creates or removes the same object, an actuator is retried: at this interval, and for at most
// this long.
const (
	retryFor   = 15 * time.Second
	retryEvery = 50 * time.Millisecond
)

// retryChanged calls f until it returns anything but [backend.ErrChanged].
func retryChanged(ctx context.Context, doing string, f func() error) error {
	return backend.RetryChanged(ctx, doing, retryEvery, retryFor, f)
}
