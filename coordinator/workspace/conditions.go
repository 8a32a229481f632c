package workspace

import "time"

// ConditionType names one observed property of a workspace (SPEC 2).
type ConditionType string

// The conditions.
const (
	VolumeReady    ConditionType = "storage.volume_ready"
	ArchiveReady   ConditionType = "storage.archive_ready"
	ContainerReady ConditionType = "infra.container_ready"
	// Dozing: the container is frozen because the workspace is idle (SPEC 2).
	Dozing        ConditionType = "infra.dozing"
	PolicyHealthy ConditionType = "policy.healthy"
)

// Condition is the last observation of one property.
type Condition struct {
	// Status is "True" or "False".
	Status string `json:"status"`
	// Reason is a CamelCase word for programs; Message is text for people.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// LastTransitionTime changes only when Status does.
	LastTransitionTime time.Time `json:"last_transition_time"`
}

// Conditions are a workspace's last observations. A missing one counts as
// False, except [PolicyHealthy], which counts as True.
type Conditions map[ConditionType]Condition

// True reports whether the condition holds.
func (c Conditions) True(t ConditionType) bool {
	v, ok := c[t]
	if !ok {
		return t == PolicyHealthy
	}
	return v.Status == "True"
}

// With returns a copy in which t has the given value. The map is copied because the
// planner compares the result with the row that it started from.
func (c Conditions) With(t ConditionType, status bool, reason, message string, now time.Time) Conditions {
	s := "False"
	if status {
		s = "True"
	}
	old, ok := c[t]
	if ok && old.Status == s && old.Reason == reason && old.Message == message {
		return c
	}
	next := Condition{Status: s, Reason: reason, Message: message, LastTransitionTime: now}
	if ok && old.Status == s {
		next.LastTransitionTime = old.LastTransitionTime
	}
	out := make(Conditions, len(c)+1)
	for k, v := range c {
		out[k] = v
	}
	out[t] = next
	return out
}
