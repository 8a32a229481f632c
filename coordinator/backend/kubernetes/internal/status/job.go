package status

import (
	"cmp"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Job returns the state of a storage job from its Job and Pods, without its output. The state is empty for a Job that
// never began: the caller must not report such a Job, but start it again. If the job has ended, ended is the Pod whose
// log has the result, and the state is still Running: the caller then reads the result (see [End]). ended is nil while
// the job runs. It is also nil if the job has failed and will never have a result.
func Job(j *batchv1.Job, pods []*corev1.Pod) (job workspace.Job, ended *corev1.Pod) {
	job = workspace.Job{Kind: workspace.JobKind(j.Labels[spec.LabelJob]), OpID: j.Labels[spec.LabelOp]}
	p := newest(pods)
	if j.Spec.Suspend != nil && *j.Spec.Suspend && p == nil && !holds(j, batchv1.JobFailed) {
		return job, nil
	}
	job.State = workspace.JobRunning
	for _, other := range pods {
		if !over(other, spec.JobContainer) && other != p {
			p = other // this one still uses the volume, whatever the others do
		}
	}
	switch {
	case j.DeletionTimestamp != nil:
		job.Pending = &workspace.Pending{
			Reason: workspace.WaitTerminating, Message: fmt.Sprintf("the storage job %s is being removed", j.Name),
		}
		if p != nil && !over(p, spec.JobContainer) && p.DeletionTimestamp != nil {
			job.Pending = terminating(p)
		}
	case p != nil && !over(p, spec.JobContainer):
		job.Pending = pending(p)
	case holds(j, batchv1.JobFailed), p != nil:
		return finished(j, p, job)
	case holds(j, batchv1.JobComplete):
		return lostBy(job, "its Pod is gone together with its result; it must run again"), nil
	case j.Status.Failed == 0 && j.Status.Active == 0:
		job.Pending = &workspace.Pending{Reason: workspace.WaitContainer,
			Message: fmt.Sprintf("the cluster has not created the Pod of the storage job %[1]s yet; if this lasts, the "+
				"events of the Job say why (kubectl describe job %[1]s)", j.Name)}
	}
	return job, nil
}

// finished returns the state of a job whose containers have all stopped. p is its last Pod, if it still exists.
func finished(j *batchv1.Job, p *corev1.Pod, job workspace.Job) (workspace.Job, *corev1.Pod) {
	for _, t := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobFailureTarget} {
		for _, c := range j.Status.Conditions {
			if c.Type == t && c.Status == corev1.ConditionTrue && c.Reason == batchv1.JobReasonDeadlineExceeded {
				return failed(job, "it took longer than its limit"), nil
			}
		}
	}
	if p == nil {
		return lostBy(job, "its Pod was removed before it had ended: "+text(message(j, batchv1.JobFailed))), nil
	}
	if cause := putOut(p); cause != "" {
		job = failed(job, cause)
		job.Disrupted = disrupted(p, spec.JobContainer)
		return job, nil
	}
	c := main(p, spec.JobContainer)
	if c == nil || c.State.Terminated == nil {
		return lostBy(job, neverRan(p)), nil // only its own end is a failure of the job
	}
	switch state := c.State.Terminated; {
	case state.Reason == reasonUnknown:
		return lostBy(job, "its node was away and does not know how it ended"), nil
	case state.ExitCode != 0 && disrupted(p, spec.JobContainer):
		return lostBy(job, "its Pod was deleted before it had ended"), nil
	case state.Reason == reasonStart, state.Reason == reasonCannot:
		_, cause := end(p, spec.JobContainer)
		return failed(job, cause), nil
	}
	return job, p
}

// neverRan returns why a Pod ended without running the job, if neither its node nor the cluster gives a reason.
func neverRan(p *corev1.Pod) string {
	switch other := ended(p, spec.JobContainer); {
	case other != nil:
		return fmt.Sprintf("another container of its Pod failed before it could run, with exit code %d: %s",
			other.ExitCode, cmp.Or(text(other.Message), other.Reason))
	case p.DeletionTimestamp != nil && p.Spec.NodeName == "":
		return "its Pod was deleted before it had a node"
	case p.DeletionTimestamp != nil:
		return fmt.Sprintf("its Pod was deleted before it ran on the node %s", p.Spec.NodeName)
	case p.Spec.NodeName == "":
		return "the cluster ended its Pod before it had a node"
	}
	return fmt.Sprintf("its Pod ended on the node %s before it ran", p.Spec.NodeName)
}

func failed(job workspace.Job, message string) workspace.Job {
	job.State, job.Reason, job.Message = workspace.JobFailed, workspace.ReasonActionFailed, message
	return job
}

// lostBy returns the state of a job that was ended from outside, or whose result was removed.
func lostBy(job workspace.Job, message string) workspace.Job {
	job = failed(job, message)
	job.Disrupted = true
	return job
}

// End returns how the storage job of the Pod ended, without its output.
func End(p *corev1.Pod) backend.JobEnd {
	c := main(p, spec.JobContainer)
	if c == nil || c.State.Terminated == nil {
		return backend.JobEnd{ExitCode: unknownExit}
	}
	end := backend.JobEnd{
		ExitCode: int(c.State.Terminated.ExitCode), OutOfMemory: c.State.Terminated.Reason == reasonOOM,
	}
	for _, asked := range p.Spec.Containers {
		if asked.Name == spec.JobContainer {
			end.Image = asked.Image // the status may name it by its digest
		}
	}
	return end
}

// newest returns the Pod that was created last, or nil if there is none.
func newest(pods []*corev1.Pod) (p *corev1.Pod) {
	for _, q := range pods {
		if p == nil || p.CreationTimestamp.Before(&q.CreationTimestamp) {
			p = q
		}
	}
	return p
}

func holds(j *batchv1.Job, t batchv1.JobConditionType) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == t && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

func message(j *batchv1.Job, t batchv1.JobConditionType) string {
	for _, c := range j.Status.Conditions {
		if c.Type == t {
			return c.Message
		}
	}
	return ""
}
