package doctor

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Admission is what a namespace admits.
type Admission struct {
	// Workspace and Job are the reasons why the Pod of a workspace or of a storage job is refused, or nil.
	Workspace, Job error
	// Privileged means that the namespace enforces no Pod Security standard, so that it admits even a Pod that can take
	// over its node.
	Privileged bool
}

// Admission finds out by dry runs what the namespace admits: it creates no Pod.
func (d *Doctor) Admission(ctx context.Context) (a Admission, err error) {
	id := workspace.ID(uuid.NewString())
	ws, err := spec.Pod(d.spec, backend.StartSpec{ID: id})
	if err != nil {
		return a, fmt.Errorf("the Pod of a workspace: %w", err)
	}
	if a.Workspace, err = d.refused(ctx, ws); err != nil {
		return a, err
	}
	// A restore has more rights than an archive.
	if a.Job, err = d.refusedJob(ctx, podOf(spec.Job(d.spec, backend.JobSpec{
		ID: id, Kind: workspace.JobRestore, OpID: uuid.NewString(),
	}))); err != nil {
		return a, err
	}
	bad := ws.DeepCopy()
	bad.Spec.HostNetwork, bad.Spec.HostPID = true, true
	why, err := d.refused(ctx, bad)
	a.Privileged = why == nil
	return a, err
}

// podOf returns the Pod that a Job creates.
func podOf(j *batchv1.Job) *corev1.Pod {
	return &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: j.Name, Labels: j.Spec.Template.Labels},
		Spec:       j.Spec.Template.Spec,
	}
}

// refused tries to create a Pod in a dry run, and returns why the Pod is refused. err means that the cluster does not
// answer.
func (d *Doctor) refused(ctx context.Context, p *corev1.Pod) (why, err error) {
	return refusal("trying a Pod", func() error {
		_, err := d.client.Pods.Create(ctx, p, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	})
}

// refusedJob does the same as refused for the Pod of a storage job, with the limit of processors that the namespace
// requires. If the namespace refuses the first limit, refusedJob tries a smaller one.
func (d *Doctor) refusedJob(ctx context.Context, p *corev1.Pod) (why, err error) {
	why, err = d.refused(ctx, p)
	for range 2 {
		limit := status.LimitOfCPU(why, *p.Spec.Containers[0].Resources.Limits.Cpu())
		if err != nil || d.spec.JobNanoCPUs != 0 || limit.IsZero() {
			return why, err
		}
		spec.LimitCPU(&p.Spec, limit)
		why, err = d.refused(ctx, p)
	}
	return why, err
}

// refusal separates a refusal by the cluster from a missing answer.
func refusal(doing string, try func() error) (why, err error) {
	err = try()
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) ||
		apierrors.IsNotFound(err) {
		return err, nil
	}
	return nil, cluster.Wrap(doing, err)
}
