package status_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// jobDisrupts are the cases of TestJob in which the job was ended from outside, or its result was removed. If the value
// is true, the controller repeats the job and does not count a failure.
var jobDisrupts = map[string]bool{
	"its Pod was removed": true, "its result is gone": true, "its node forgot it": true, "its node is removed, and was back": true,
	"refused by its node": true, "its Pod was deleted by force": true, "evicted": false, "too long": false, "no such program": false,
	"deleted before it had a node": true, "the same, and failed by hand": true, "deleted while its image was fetched": true, "drained before it had a node": true,
	"displaced before it ran": true, "evicted by its node before it ran": true, "its node shut down before it ran": true, "ended by a component that is not known": true,
	"a container before it failed": true, "its Job failed, and its Pod never ran": true, "its Pod's time was over": true,
}

// TestJob checks the state of a storage job for Jobs and Pods that were recorded on a real cluster.
func TestJob(t *testing.T) {
	type want struct {
		state   workspace.JobState
		ended   bool // there is a result to read
		pending string
		says    string
		fails   workspace.ErrorReason
	}
	const runs, failed = workspace.JobRunning, workspace.JobFailed
	for name, c := range map[string]struct {
		from   string
		change func(*batchv1.Job, *corev1.Pod)
		want   want
	}{
		"never begun":           {"job-suspended", nil, want{}},
		"running":               {"job-running", nil, want{state: runs}},
		"done":                  {"job-done", nil, want{state: runs, ended: true}},
		"done, not noticed yet": {"job-done", func(j *batchv1.Job, _ *corev1.Pod) { j.Status = batchv1.JobStatus{Active: 1} }, want{state: runs, ended: true}},
		"failed":                {"job-failed", nil, want{state: runs, ended: true}},
		"out of memory":         {"job-oom", nil, want{state: runs, ended: true}},
		"evicted":               {"job-evicted", nil, want{state: failed, says: `its node evicted it: Usage of EmptyDir volume "tmp" exceeds the limit "5Mi"; raise`}},
		"too long":              {"job-deadline", nil, want{state: failed, says: "longer than its limit"}},
		"no such program":       {"job-start-error", nil, want{state: failed, says: "could not be started"}},
		"its Pod was removed":   {"job-pod-gone", nil, want{state: failed, says: "removed before it had ended"}},
		"its result is gone":    {"job-done", func(_ *batchv1.Job, p *corev1.Pod) { *p = corev1.Pod{} }, want{state: failed, says: "must run again"}},
		"its node forgot it":    {"job-failed", func(_ *batchv1.Job, p *corev1.Pod) { terminated(p, "ContainerStatusUnknown", 137) }, want{state: failed, says: "does not know how it ended"}},
		"its node is removed": {"job-running", func(_ *batchv1.Job, p *corev1.Pod) { removed(p) },
			want{runs, false, workspace.WaitNodeLost, "kubectl patch pod", ""}},
		"its node is removed, and was back": {"job-running", func(_ *batchv1.Job, p *corev1.Pod) {
			removed(p)
			terminated(p, "Error", 137)
		}, want{state: failed, says: "no longer exists"}},
		"its Pod was deleted by force":         {"job-failed", func(_ *batchv1.Job, p *corev1.Pod) { deletedAt(p, 0) }, want{state: failed, says: "deleted before it had ended"}},
		"it failed before its Pod was deleted": {"job-failed", func(_ *batchv1.Job, p *corev1.Pod) { deletedAt(p, 5*time.Second) }, want{state: runs, ended: true}},
		"it was done when its Pod was deleted": {"job-done", func(_ *batchv1.Job, p *corev1.Pod) { deletedAt(p, 0) }, want{state: runs, ended: true}},
		"refused by its node": {"job-running", func(_ *batchv1.Job, p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfmemory", Message: "Pod was rejected: Node didn't have enough resource: memory"}
		}, want{state: failed, says: "OutOfmemory"}},
		"deleted before it had a node": {"job-too-large", func(_ *batchv1.Job, p *corev1.Pod) { // as PodGC leaves it
			deletedNow(p)
			p.Status.Phase = corev1.PodFailed
		}, want{state: failed, says: "deleted before it had a node"}},
		"the same, and failed by hand": {"job-too-large", func(_ *batchv1.Job, p *corev1.Pod) { p.Status.Phase = corev1.PodFailed },
			want{state: failed, says: "the cluster ended its Pod before it had a node"}},
		"deleted while its image was fetched": {"job-image", func(_ *batchv1.Job, p *corev1.Pod) {
			deletedNow(p)
			p.Status.Phase = corev1.PodFailed
		}, want{state: failed, says: "deleted before it ran on the node"}},
		"drained before it had a node": {"job-too-large", func(_ *batchv1.Job, p *corev1.Pod) {
			deletedNow(p)
			p.Status.Phase = corev1.PodFailed
			disrupted(p, "EvictionByEvictionAPI")
		}, want{state: failed, says: "drained"}},
		"displaced before it ran": {"job-image", func(_ *batchv1.Job, p *corev1.Pod) {
			deletedNow(p)
			p.Status.Phase = corev1.PodFailed
			disrupted(p, corev1.PodReasonPreemptionByScheduler)
		}, want{state: failed, says: "higher priority"}},
		"evicted by its node before it ran": {"job-image", func(_ *batchv1.Job, p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason, p.Status.Message = corev1.PodFailed, "Evicted", "The node was low on resource: memory."
		}, want{state: failed, says: "low on resource"}},
		"its node shut down before it ran": {"job-image", func(_ *batchv1.Job, p *corev1.Pod) {
			p.Status.Phase, p.Status.Reason = corev1.PodFailed, "NodeShutdown"
		}, want{state: failed, says: "was shut down"}},
		"ended by a component that is not known": {"job-failed", func(_ *batchv1.Job, p *corev1.Pod) { disrupted(p, "DeletionByDescheduler") },
			want{state: failed, says: "DeletionByDescheduler"}},
		"a container before it failed": {"job-image", func(_ *batchv1.Job, p *corev1.Pod) {
			p.Status.Phase = corev1.PodFailed
			p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", State: corev1.ContainerState{
				Terminated: &corev1.ContainerStateTerminated{ExitCode: 7, Reason: "Error"}}}}
		}, want{state: failed, says: "another container of its Pod failed before it could run, with exit code 7: Error"}},
		"its Job failed, and its Pod never ran": {"job-image", func(j *batchv1.Job, p *corev1.Pod) {
			p.Status.Phase, p.Status.ContainerStatuses = corev1.PodFailed, nil
			j.Status.Conditions = append(j.Status.Conditions, batchv1.JobCondition{Type: batchv1.JobFailed, Status: corev1.ConditionTrue, Reason: "PodFailurePolicy"})
		}, want{state: failed, says: "before it ran"}},
		"its Pod's time was over": {"job-failed", func(_ *batchv1.Job, p *corev1.Pod) { p.Status.Reason = "DeadlineExceeded" },
			want{state: failed, says: "DeadlineExceeded"}},
		"no Pod yet":                 {"job-quota", nil, want{runs, false, workspace.WaitContainer, "kubectl describe job", ""}},
		"a Pod that is not seen yet": {"job-running", func(_ *batchv1.Job, p *corev1.Pod) { *p = corev1.Pod{} }, want{state: runs}},
		"too large":                  {"job-too-large", nil, want{runs, false, workspace.WaitUnschedulable, "too little memory", ""}},
		"the registry is away":       {"job-image", nil, want{runs, false, workspace.WaitPullingImage, "reaches the registry", ""}},
		"no such image": {"job-image", func(_ *batchv1.Job, p *corev1.Pod) {
			saying("ImagePullBackOff", `Back-off pulling image "x": ErrImagePull: rpc error: code = NotFound desc = x: not found`)(p)
		}, want{runs, false, workspace.WaitPullingImage, "does not have the image", workspace.ReasonImagePullFailed}},
		"its node is lost":      {"job-running", func(_ *batchv1.Job, p *corev1.Pod) { lose(p) }, want{runs, false, workspace.WaitNodeLost, "node1", ""}},
		"removed, and not gone": {"job-deleting", nil, want{runs, false, workspace.WaitTerminating, "node1 has not confirmed", ""}},
		"removed, its Pod gone": {"job-deleting", func(_ *batchv1.Job, p *corev1.Pod) { *p = corev1.Pod{} }, want{runs, false, workspace.WaitTerminating, "is being removed", ""}},
		"its Pod is being removed": {"job-running", func(_ *batchv1.Job, p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} },
			want{runs, false, workspace.WaitTerminating, "kubectl describe node", ""}},
	} {
		o := real(t)
		j := o.Jobs[c.from]
		if j == nil {
			t.Fatalf("%s: no Job %s", name, c.from)
		}
		p := o.Pods[c.from]
		if p == nil {
			p = &corev1.Pod{}
		}
		if c.change != nil {
			c.change(j, p)
		}
		var pods []*corev1.Pod
		if p.Name != "" {
			pods = append(pods, p)
		}
		job, ended := status.Job(j, pods)
		if job.State == failed && (job.Message == "" || strings.HasSuffix(job.Message, ": ")) {
			t.Errorf("%s: it is not said why: %q", name, job.Message)
		}
		if job.Disrupted != jobDisrupts[name] {
			t.Errorf("%s: others have ended it: %v", name, job.Disrupted)
		}
		pending := workspace.Pending{}
		if job.Pending != nil {
			pending = *job.Pending
		}
		if job.State != c.want.state || (ended != nil) != c.want.ended || pending.Reason != c.want.pending || pending.Failure != c.want.fails ||
			!strings.Contains(pending.Message+job.Message, c.want.says) {
			t.Errorf("%s: %+v, waits for %+v, ended %v; want %+v", name, job, pending, ended != nil, c.want)
		}
		if job.Kind != workspace.JobArchive || job.OpID != "op-1" || (job.State == failed) != (job.Reason == workspace.ReasonActionFailed) {
			t.Errorf("%s: %+v", name, job)
		}
	}
}

// TestAJobRunsWhileAnyPodOfItDoes: if a job has several Pods, the Pod that still uses the volume determines the job's
// state.
func TestAJobRunsWhileAnyPodOfItDoes(t *testing.T) {
	o := real(t)
	old, newer := o.Pods["job-running"], o.Pods["job-failed"]
	newer.CreationTimestamp = metav1.NewTime(old.CreationTimestamp.Add(time.Minute))
	for _, pods := range [][]*corev1.Pod{{old, newer}, {newer, old}} {
		if job, ended := status.Job(o.Jobs["job-running"], pods); job.State != workspace.JobRunning || ended != nil {
			t.Errorf("%+v, ended %v", job, ended)
		}
	}
}

func TestEnd(t *testing.T) {
	o := real(t)
	for name, want := range map[string]int{"job-done": 0, "job-failed": 12, "job-oom": 137} {
		if e := status.End(o.Pods[name]); e.ExitCode != want || e.OutOfMemory != (name == "job-oom") {
			t.Errorf("%s: %+v", name, e)
		}
	}
	if e := status.End(o.Pods["job-running"]); e.ExitCode == 0 {
		t.Errorf("one that runs: %+v", e)
	}
}

// TestVolume: a claim that exists is reported as present or as unknown, and never as gone.
func TestVolume(t *testing.T) {
	for name, want := range map[string]string{
		"exit-0": "", "gated": "", // bound, and waiting for its first Pod
		"running":   "keep its PersistentVolume pvc-",
		"not-ready": "has lost its PersistentVolume pvc-",
	} {
		c := real(t).Claims[name]
		v := status.Volume(c)
		if v.OpID != "op-1" || v.CreatedAt.IsZero() || (v.Unknown == "") != (want == "") || !strings.Contains(v.Unknown, want) {
			t.Errorf("%s: %+v, want %q", name, v, want)
		}
		if want != "" && !strings.Contains(v.Unknown, c.Name) {
			t.Errorf("%s: %q does not name the claim", name, v.Unknown)
		}
	}
	c := real(t).Claims["exit-0"]
	delete(c.Labels, spec.LabelOp)
	if v := status.Volume(c); v.OpID != "" {
		t.Errorf("without its label: %+v", v)
	}
}

// TestRefused: the errors are recorded from a cluster of version 1.34.
func TestRefused(t *testing.T) {
	forbidden := func(message string) error {
		return fmt.Errorf("starting: %w", apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "ws-1", errors.New(message)))
	}
	for message, want := range map[string]struct {
		reason, says string
		fails        workspace.ErrorReason
	}{
		"exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0":                                                                                       {workspace.WaitQuota, "quota q of the namespace is used up (it needs pods=1, pods=0 is used, the limit is pods=0)", ""},
		"exceeded quota: mem, requested: requests.cpu=1,requests.memory=2Gi, used: requests.cpu=3,requests.memory=3Gi, limited: requests.cpu=3,requests.memory=4Gi": {workspace.WaitQuota, "limit is requests.cpu=3,requests.memory=4Gi", ""},
		"failed quota: q: must specify limits.cpu":                                                                                                                  {workspace.WaitQuota, "must specify limits.cpu", ""},
		"maximum memory usage per Container is 1Gi, but limit is 2Gi":                                                                                               {workspace.WaitQuota, "LimitRange of the namespace does not allow the resources of the settings. It continues by itself when one of them is changed: starting: pods \"ws-1\" is forbidden: maximum memory usage per Container is 1Gi, but limit is 2Gi", ""},
		"minimum cpu usage per Container is 2, but request is 100m":                                                                                                 {workspace.WaitQuota, "minimum cpu usage per Container is 2", ""},
		"memory max limit to request ratio per Container is 2, but provided ratio is 4.000":                                                                         {workspace.WaitQuota, "ratio is 4.000", ""},
		"maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi":                                                                               {workspace.WaitQuota, "5Gi, but request is 10Gi", ""},
		"insufficient quota to match these scopes: [{PriorityClass In [high]}]":                                                                                     {workspace.WaitQuota, "no quota of the namespace covers it", ""},
		`violates PodSecurity "restricted:latest": runAsNonRoot != true`:                                                                                            {workspace.WaitContainer, "pod-security.kubernetes.io/enforce", workspace.ReasonActionFailed},
		"unable to create new content in namespace x because it is being terminated":                                                                                {workspace.WaitContainer, "is being deleted", workspace.ReasonActionFailed},
		`User "system:serviceaccount:x:y" cannot create resource "pods" in API group "" in the namespace "x"`:                                                       {},
	} {
		w := status.Refused(forbidden(message))
		if w == nil {
			w = new(workspace.Pending)
		}
		if w.Reason != want.reason || w.Failure != want.fails || !strings.Contains(w.Message, want.says) {
			t.Errorf("%s: %+v, want %+v", message, w, want)
		}
	}
	if status.Refused(errors.New("exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0")) != nil || status.Refused(nil) != nil {
		t.Error("what no cluster has answered counts")
	}
}

// TestLimitOfCPU: if the namespace requires a CPU limit, a job without a limit gets one. If the namespace requires a
// lower limit, the job gets that. The errors are recorded from a cluster of version 1.34.
func TestLimitOfCPU(t *testing.T) {
	forbidden := func(message string) error {
		return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "ws-1", errors.New(message))
	}
	for message, want := range map[string][2]string{ // without a limit, and with one of 1
		"failed quota: q: must specify limits.cpu for: storagejob":                                                       {"1", "0"},
		"failed quota: q: must specify limits.cpu for: storagejob; requests.cpu for: storagejob":                         {"1", "0"},
		"failed quota: q: must specify limits.memory for: storagejob":                                                    {"0", "0"},
		"exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=0, limited: limits.cpu=500m":                       {"500m", "500m"},
		"exceeded quota: q, requested: limits.cpu=1, used: limits.cpu=2, limited: limits.cpu=2":                          {"2", "0"},
		"exceeded quota: q, requested: pods=1, used: pods=0, limited: pods=0":                                            {"0", "0"},
		"maximum cpu usage per Container is 500m, but limit is 1":                                                        {"500m", "500m"},
		"maximum cpu usage per Pod is 250m.  No limit is specified":                                                      {"250m", "250m"},
		"[maximum memory usage per Pod is 1Gi, but limit is 2147483648, maximum cpu usage per Pod is 2, but limit is 3]": {"2", "0"},
		"maximum memory usage per Container is 1Gi, but limit is 2Gi":                                                    {"0", "0"},
		"exceeded quota: q, requested: limits.cpu=1,pods=1, used: limits.cpu=0,pods=0, limited: limits.cpu=300m,pods=5":  {"300m", "300m"},
	} {
		none, one := status.LimitOfCPU(forbidden(message), resource.Quantity{}), status.LimitOfCPU(forbidden(message), resource.MustParse("1"))
		if none.String() != want[0] || one.String() != want[1] {
			t.Errorf("%s: %s, then %s; want %q", message, none.String(), one.String(), want)
		}
	}
	if q := status.LimitOfCPU(errors.New("failed quota: q: must specify limits.cpu for: storagejob"), resource.Quantity{}); !q.IsZero() {
		t.Error("what no cluster has answered counts")
	}
}
