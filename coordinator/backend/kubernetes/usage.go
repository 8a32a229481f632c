package kubernetes

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/object"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/sampler"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// countsAtOnce is how many homes are counted concurrently.
	countsAtOnce = 4
	// noQuotaFor is how long the backend remembers that there is no storage quota, so that it rarely sends this query
	// to the many clusters without one.
	noQuotaFor = 10 * time.Minute
)

// Usage implements [backend.Core]. It counts a home inside its workspace's Pod, and only while the Pod runs. An
// installation that sees only its namespace has no other way.
func (b *Backend) Usage(ctx context.Context, limit time.Duration, ids ...workspace.ID) (
	map[workspace.ID]backend.Usage, error) {
	for _, id := range ids {
		if err := backend.CheckID(id); err != nil {
			return nil, err
		}
	}
	share := limit / time.Duration(1+(len(ids)-1)/countsAtOnce)
	found := make(map[workspace.ID]backend.Usage)
	var mu sync.Mutex
	var g errgroup.Group
	g.SetLimit(countsAtOnce)
	for _, id := range ids {
		guard.Go(&g, func() error {
			p, err := b.workspacePod(ctx, id)
			if err != nil {
				return nil
			}
			if u, err := sampler.Usage(ctx, b.api, p, share); err == nil {
				mu.Lock()
				defer mu.Unlock()
				found[id] = u
			}
			return nil
		})
	}
	_ = g.Wait() // homes that cannot be counted are left out
	return found, ctx.Err()
}

// Disk implements [backend.Core]. Each home is its own volume. If a ResourceQuota limits the storage that the namespace
// may claim, the homes share that storage. The fullest quota counts.
func (b *Backend) Disk(ctx context.Context) (backend.Disk, error) {
	if until := b.noQuota.Load(); until != nil && time.Now().Before(*until) {
		return backend.Disk{}, backend.ErrUnknownDisk
	}
	ctx, cancel := context.WithTimeout(ctx, object.ReadLimit)
	defer cancel()
	list, err := b.api.Quotas.List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return backend.Disk{}, cluster.Wrap("listing resource quotas", err)
	}
	disk, known := fullest(list.Items, b.opts.StorageClass)
	if !known {
		until := time.Now().Add(noQuotaFor)
		b.noQuota.Store(&until)
		return backend.Disk{}, backend.ErrUnknownDisk
	}
	return disk, nil
}

// fullest returns the quota of storage with the largest share in use, for all claims or for those of the class. An
// empty class is the cluster's default.
func fullest(quotas []corev1.ResourceQuota, class string) (disk backend.Disk, known bool) {
	names := []corev1.ResourceName{corev1.ResourceRequestsStorage}
	if class != "" {
		names = append(names, corev1.ResourceName(class+".storageclass.storage.k8s.io/"+
			string(corev1.ResourceRequestsStorage)))
	}
	for i := range quotas {
		for _, name := range names {
			hard, bounded := quotas[i].Status.Hard[name]
			used, counted := quotas[i].Status.Used[name]
			if !bounded || !counted || hard.Value() <= 0 {
				continue
			}
			d := backend.Disk{Total: hard.Value(), Free: max(0, hard.Value()-used.Value())}
			if !known || d.Used() > disk.Used() {
				disk, known = d, true
			}
		}
	}
	return disk, known
}
