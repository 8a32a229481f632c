package planner_test

import (
	"errors"

	"pgregory.net/rapid"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// keeps are the obstacles that prevent the backend from doing what it is asked to do.
type keeps struct {
	start *workspace.Pending // the wait of newly started objects; see [harness.comesUp]
	quota bool               // nothing can be started
	lost  bool               // the node does not report
	doubt string             // it is unknown whether the volume stays
}

// disturb changes one of the obstacles.
func (k *keeps) disturb(t *rapid.T, h *harness) {
	switch rapid.SampledFrom([]string{"start", "start", "quota", "node", "node", "volume"}).Draw(t, "keeps") {
	case "start":
		k.start = rapid.SampledFrom([]*workspace.Pending{nil, nil, noNode, pulls, noImage, noSecret}).Draw(t, "start")
		h.comesUp()
	case "quota":
		k.quota = !k.quota
	case "node":
		k.lost = !k.lost
		h.nodeChanged()
	case "volume":
		k.doubt = rapid.SampledFrom([]string{"", "", "its claim is being deleted"}).Draw(t, "doubt")
	}
}

// end removes all obstacles.
func (k *keeps) end(h *harness) {
	*k = keeps{}
	h.comesUp()
	h.nodeChanged()
}

// blind are the sensors that report nothing about the workspace.
func (h *harness) blind() workspace.Sensors {
	if h.keeps.doubt != "" && h.volume != nil {
		return h.unseen | workspace.SensorVolumes
	}
	return h.unseen
}

// mustWait reports to the controller that an actuator must wait.
func (h *harness) mustWait(a planner.Action, reason string) {
	if h.row.Operation == workspace.OpNone {
		return
	}
	h.save(failed(h.now, h.row, &workspace.PendingError{
		Pending: workspace.Pending{Reason: reason, Message: "the backend waits"}, Err: errors.New(string(a) + " waits")}, h.policy()))
}

// comesUp gives the present obstacle to a started container that does not run yet, or lets that container run.
func (h *harness) comesUp() {
	if k := h.container; k != nil && k.Running && k.StartedAt.IsZero() && !ending(k.Pending) {
		if k.Pending = h.keeps.start; k.Pending == nil {
			k.Ready, k.Health, k.Endpoint, k.StartedAt = true, "", "10.0.0.1:8080", h.now
		}
	}
	if j := h.runningJob(); j != nil && !ending(j.Pending) {
		j.Pending = h.keeps.start
	}
}

// ending reports whether the object that waits for w was told to end, or is on a lost node.
func ending(w *workspace.Pending) bool { return w == terminating || w == nodeLost }

// nodeChanged loses the node or brings it back. When it is back, everything that was told to end has ended.
func (h *harness) nodeChanged() {
	k, j := h.container, h.runningJob()
	if h.keeps.lost {
		if k != nil && k.Running && k.Pending == nil {
			k.Ready, k.Health, k.Pending = false, workspace.HealthUnhealthy, nodeLost
		}
		if j != nil && j.Pending == nil {
			j.Pending = nodeLost
		}
		return
	}
	switch {
	case k == nil || !ending(k.Pending):
	case k.Pending == terminating:
		h.container = nil
	default:
		k.Ready, k.Health, k.Pending = true, "", nil
	}
	switch {
	case j == nil || !ending(j.Pending):
	case j.Pending == terminating:
		h.jobs = nil
	default:
		j.Pending = nil
	}
}

// deleteContainer removes the container, unless its node must confirm the removal and does not. A volume in doubt is
// removed with it.
func (h *harness) deleteContainer() {
	if k := h.container; k != nil && k.Running && ending(k.Pending) {
		k.Ready, k.Health, k.Pending, k.Endpoint = false, workspace.HealthUnhealthy, terminating, ""
		h.mustWait(planner.ActDeleteContainer, workspace.WaitTerminating)
		return
	}
	if h.container != nil && h.keeps.doubt != "" {
		h.volume = nil
	}
	h.container = nil
}

// deleteJobs removes the jobs, except one whose node does not confirm that.
func (h *harness) deleteJobs() {
	if j := h.runningJob(); j != nil && ending(j.Pending) {
		left := *j
		left.Pending = terminating
		h.jobs = []workspace.Job{left}
		h.mustWait(planner.ActDeleteJobs, workspace.WaitTerminating)
		return
	}
	h.jobs = nil
}
