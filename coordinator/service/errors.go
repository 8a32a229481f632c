package service

import (
	"errors"
	"fmt"

	"github.com/codehub/gateway/coordinator/store"
)

var (
	// ErrNotFound means that the workspace is unknown, deleted or another user's. The
	// error does not tell which.
	ErrNotFound = errors.New("workspace not found")
	// ErrOperationInProgress means that the desired state cannot change before the
	// operation in progress has ended (SPEC 1, contract 4).
	ErrOperationInProgress = errors.New("an operation is in progress")
	// ErrForbidden means that only administrators may do this.
	ErrForbidden = errors.New("only administrators may do this")
	// ErrCollected means that a deletion cannot be undone any more: nothing is left of
	// the workspace, or its archives are being deleted.
	ErrCollected = errors.New("the deletion can no longer be undone: the files of the workspace are being deleted or gone")
	// ErrDeleted means that the workspace is deleted, so there is no choice to make about
	// its files.
	ErrDeleted = errors.New("the workspace is deleted: undelete it first, and then recover it with a choice")
	// ErrInventoryUnknown means that the backend or the object store does not answer, or
	// is not the recorded one. Nothing was changed.
	ErrInventoryUnknown = errors.New("nothing was changed, because it is not known which data of the workspace exists")
)

// LimitError means that one more running workspace would exceed a limit (SPEC 5).
type LimitError struct {
	// Scope is "user" or "global".
	Scope string
	// Limit is the number that would be exceeded.
	Limit int
}

// Error implements error.
func (e *LimitError) Error() string {
	if e.Scope == "user" {
		return fmt.Sprintf("at most %d of your workspaces may run at the same time", e.Limit)
	}
	return fmt.Sprintf("at most %d workspaces may run at the same time on this system", e.Limit)
}

// InvalidError is an invalid value of one field of a request.
type InvalidError struct {
	// Field is the field's name in the API.
	Field string
	// Problem is a phrase for people that continues after the name: "must be …".
	Problem string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// outcomeError is the error for an outcome with which nothing was written.
func outcomeError(o store.Outcome, l store.Limits) error {
	switch o {
	case store.Changed, store.Unchanged:
		return nil
	case store.Busy:
		return ErrOperationInProgress
	case store.Collected:
		return ErrCollected
	case store.UserLimit:
		return &LimitError{Scope: "user", Limit: l.PerUser}
	case store.GlobalLimit:
		return &LimitError{Scope: "global", Limit: l.Global}
	}
	return fmt.Errorf("unknown outcome %q", o)
}
