package problem

import (
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// RunningWorkspace is a workspace that counts against the limits, as its owner sees it
// when a limit is reached. Putting it to sleep makes room.
type RunningWorkspace struct {
	ID   workspace.ID `json:"id"`
	Name string       `json:"name"`
	URL  string       `json:"url"`
	// Idle is the time since the last recorded use, in seconds. Use within the last
	// minute may not be recorded yet.
	Idle int64 `json:"idle_seconds"`
	// NeverUsed says that it was not used since it was created. Idle is then the time since its start.
	NeverUsed bool `json:"never_used,omitempty"`
	// Operation is its operation in progress. The workspace can be put to sleep only if it is NONE.
	Operation workspace.Operation `json:"operation"`
	// Busy is why it is awake without being used; absent while nothing is known.
	Busy *workspace.Busy `json:"busy,omitempty"`
}

// RunningList returns the given workspaces as people see them. url returns the address of a workspace.
func RunningList(all []workspace.Workspace, url func(workspace.ID) string) []RunningWorkspace {
	list := make([]RunningWorkspace, 0, len(all))
	for _, w := range all {
		item := RunningWorkspace{ID: w.ID, Name: w.Name, URL: url(w.ID), Operation: w.Operation, Busy: w.Busy,
			NeverUsed: w.LastAccessAt.IsZero()}
		used := w.LastAccessAt
		if w.PhaseChangedAt.After(used) {
			used = w.PhaseChangedAt
		}
		if !used.IsZero() {
			item.Idle = int64(max(time.Since(used), 0).Seconds())
		}
		list = append(list, item)
	}
	return list
}
