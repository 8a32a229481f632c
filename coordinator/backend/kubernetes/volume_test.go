package kubernetes_test

import (
	"context"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// storageClass creates a class like the cluster's default one. grows says whether its volumes may grow.
func (e *engine) storageClass(t *testing.T, grows bool) (name string) {
	t.Helper()
	const path = "/apis/storage.k8s.io/v1/storageclasses"
	api := e.Inspect(t, "")
	d, err := doctor.New(cluster.Options{Kubeconfig: e.Kubeconfig, Namespace: e.Namespace}, spec.Options{})
	must(t, err)
	defer d.Close()
	like, _, err := d.StorageClass(t.Context())
	must(t, err)
	if like == nil {
		t.Skip("the cluster has no default storage class")
	}
	name = "test-" + string(newID())
	must(t, api.Do(t.Context(), http.MethodPost, path, nil, &storagev1.StorageClass{
		TypeMeta: metav1.TypeMeta{APIVersion: "storage.k8s.io/v1", Kind: "StorageClass"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Provisioner: like.Provisioner, Parameters: like.Parameters, MountOptions: like.MountOptions, ReclaimPolicy: like.ReclaimPolicy,
		VolumeBindingMode: like.VolumeBindingMode, AllowVolumeExpansion: &grows,
	}, nil))
	// t's context has ended by then.
	t.Cleanup(func() { check(t, api.Do(context.Background(), http.MethodDelete, path+"/"+name, nil, nil, nil)) })
	return name
}

// TestHomesGrow: if the settings are changed to a larger home, existing homes grow at the next start of their
// workspaces, provided that the class allows it. Otherwise they start as they are, and doctor reports why.
func TestHomesGrow(t *testing.T) {
	e := newEngine(t)
	for name, grows := range map[string]bool{"a class that allows it": true, "a class that does not": false} {
		t.Run(name, func(t *testing.T) {
			o := e.options(backendtest.Installation())
			o.Spec.StorageClass = e.storageClass(t, grows)
			before, id, ctx := e.with(t, o), newID(), backendtest.Context(t)
			must(t, before.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
			must(t, before.Start(ctx, backend.StartSpec{ID: id}))
			backendtest.Ready(t, before, id)
			must(t, before.Delete(ctx, id))

			size := o.Spec.HomeBytes
			o.Spec.HomeBytes *= 2
			d, err := doctor.New(cluster.Options{Kubeconfig: e.account, Namespace: e.Namespace}, o.Spec)
			must(t, err)
			defer d.Close()
			examine := func(small int) {
				t.Helper()
				h, err := d.Homes(ctx)
				must(t, err)
				if h.All != 1 || h.Small != small || (h.Refused != nil) != (!grows) {
					t.Errorf("doctor finds %+v, want 1 home and %d small ones", h, small)
				}
				if h.Refused != nil && !strings.Contains(h.Refused.Error(), "resize") {
					t.Errorf("doctor says %v", h.Refused)
				}
			}
			examine(1)
			after := e.with(t, o)
			must(t, after.Start(ctx, backend.StartSpec{ID: id}))
			backendtest.Ready(t, after, id)
			c, err := e.api.Claims.Get(ctx, id.VolumeName(), metav1.GetOptions{})
			must(t, err)
			if grows {
				size = o.Spec.HomeBytes
				examine(0)
			} else {
				examine(1)
			}
			if got := c.Spec.Resources.Requests[corev1.ResourceStorage]; got.Value() != size {
				t.Errorf("the home has %s, want %d bytes", &got, size)
			}
		})
	}
}

func (e *engine) Owners(t *testing.T, id workspace.ID) map[string]string {
	t.Helper()
	pods, jobs := e.of(t, id)
	claim, err := e.api.Claims.Get(t.Context(), id.VolumeName(), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	objects := append(jobs, claim)
	for i := range pods {
		objects = append(objects, &pods[i])
	}
	owners := map[string]string{}
	for _, o := range objects {
		labels := o.GetLabels()
		kind, owner := labels[spec.LabelKind], labels[spec.LabelOwner]
		if former, ok := owners[kind]; ok && former != owner {
			t.Errorf("objects of kind %s have the owners %q and %q", kind, former, owner)
		}
		owners[kind] = owner
	}
	return owners
}

// TestAnOlderHomeGetsItsOwner: a home of an earlier release lacks the owner's label. It gets the label when its
// workspace or a storage job uses it again. It keeps everything else.
func TestAnOlderHomeGetsItsOwner(t *testing.T) {
	e := newEngine(t)
	installation, ctx, owner := backendtest.Installation(), backendtest.Context(t), uuid.NewString()
	b := e.New(t, installation)
	for name, use := range map[string]func(workspace.ID) error{
		"workspace": func(id workspace.ID) error { return b.Start(ctx, backend.StartSpec{ID: id, Owner: owner}) },
		"job": func(id workspace.ID) error {
			return b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2", Owner: owner})
		},
	} {
		t.Run(name, func(t *testing.T) {
			id := newID()
			e.LegacyVolume(t, installation, id)
			before, err := e.api.Claims.Get(ctx, id.VolumeName(), metav1.GetOptions{})
			must(t, err)
			must(t, use(id))
			after, err := e.api.Claims.Get(ctx, id.VolumeName(), metav1.GetOptions{})
			must(t, err)
			want := spec.With(before.Labels, map[string]string{spec.LabelOwner: owner})
			if before.UID != after.UID || !maps.Equal(after.Labels, want) {
				t.Errorf("the home %s has the labels %v, want %s with %v", after.UID, after.Labels, before.UID, want)
			}
		})
	}
}

// TestOnePodPerVolume: with ReadWriteOncePod the cluster itself lets no second Pod use a home. A workspace starts and
// is archived as with any other mode.
func TestOnePodPerVolume(t *testing.T) {
	e := newEngine(t)
	o := e.options(backendtest.Installation())
	o.Spec.AccessMode = string(corev1.ReadWriteOncePod)
	b, id, ctx := e.with(t, o), newID(), backendtest.Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	backendtest.Ready(t, b, id)
	second, err := spec.Pod(o.Spec, backend.StartSpec{ID: id})
	must(t, err)
	second.Name, second.Labels, second.Finalizers, second.Spec.SchedulingGates = "second", nil, nil, nil
	_, err = e.api.Pods.Create(ctx, second, metav1.CreateOptions{})
	must(t, err)
	wait.Until(t, "the second Pod is kept out", func() bool {
		p, err := e.api.Pods.Get(ctx, "second", metav1.GetOptions{})
		must(t, err)
		if p.Spec.NodeName != "" {
			t.Fatalf("a second Pod got the volume of a running one: %+v", p.Status)
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodScheduled && c.Reason == corev1.PodReasonUnschedulable && strings.Contains(c.Message, "ReadWriteOncePod") {
				return true
			}
		}
		return false
	})
	must(t, e.api.Pods.Delete(ctx, "second", metav1.DeleteOptions{}))
	must(t, b.Delete(ctx, id))
	must(t, b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2"}))
	wait.Until(t, "the job has succeeded", func() bool {
		all, err := b.Jobs(ctx, id)
		must(t, err)
		return len(all[id]) == 1 && all[id][0].State == workspace.JobSucceeded
	})
	must(t, b.Start(ctx, backend.StartSpec{ID: id})) // beside the Pod of the job, which has ended
	backendtest.Ready(t, b, id)
}

// TestRemoveACopy: a volume that has the labels of a home but another name, such as one that a backup restored, is not
// removed. The caller gets an error.
func TestRemoveACopy(t *testing.T) {
	e := newEngine(t)
	installation, id, ctx := backendtest.Installation(), newID(), backendtest.Context(t)
	b := e.New(t, installation)
	c := spec.Claim(e.options(installation).Spec, backend.VolumeSpec{ID: id})
	c.Name = "restored-" + string(id)
	_, err := e.api.Claims.Create(ctx, c, metav1.CreateOptions{})
	must(t, err)
	all, err := b.Objects(ctx)
	must(t, err)
	if len(all) != 1 || all[0].Name != c.Name {
		t.Fatalf("objects: %+v", all)
	}
	if err := b.Remove(ctx, all[0]); err == nil || !strings.Contains(err.Error(), c.Name) {
		t.Errorf("removing it: %v", err)
	}
	if left, err := b.Objects(ctx); err != nil || len(left) != 1 {
		t.Errorf("left: %+v, %v", left, err)
	}
}
