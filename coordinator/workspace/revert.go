package workspace

import "time"

// Revert is a request to go back to an older archive. The present state is archived first, so that it is not lost.
// Then the older archive becomes the current one, and the workspace is brought from it to the desired state, which does
// not change.
//
// A problem with archiving the present state ends the request, so that a user can continue with the present files
// while the store is unreachable.
type Revert struct {
	ID string `json:"id"`
	// Key is the archive to go back to.
	Key string `json:"key"`
	// At is when the revert was requested.
	At time.Time `json:"at"`
}

// Reverting reports whether a request to go back to an older archive is open.
func (w Workspace) Reverting() bool {
	return w.Revert != nil && w.Revert.ID != w.HomeCtx.RevertID && !w.Deleted()
}

// OpenRevert is the id of the open request to go back to an older archive; empty when there is
// none.
func (w Workspace) OpenRevert() string {
	if !w.Reverting() {
		return ""
	}
	return w.Revert.ID
}

// Wanted returns the state to which the controller brings the workspace now: ARCHIVED while the workspace goes back to
// an older archive, and the desired state otherwise.
func (w Workspace) Wanted() DesiredState {
	if w.Reverting() {
		return DesiredArchived
	}
	return w.DesiredState
}
