package service

import (
	"errors"
	"fmt"

	"github.com/codehub/gateway/coordinator/store"
)

var (
	// ErrNotFound: unknown, deleted, or somebody else's; which one is not told.
	ErrNotFound = errors.New("no such workspace")
	// ErrOperationInProgress: an operation is under way, and what is desired stays
	// as it is until it has ended (SPEC 1, contract 4).
	ErrOperationInProgress = errors.New("an operation is in progress")
	// ErrForbidden: only administrators may.
	ErrForbidden = errors.New("not allowed")
)

// LimitError says that as many workspaces run already as may (SPEC 5).
type LimitError struct {
	// Scope is "user" or "global".
	Scope string
	// Limit is the number that would be exceeded.
	Limit int
}

// Error implements error.
func (e *LimitError) Error() string {
	if e.Scope == "user" {
		return fmt.Sprintf("at most %d of your workspaces may run at a time", e.Limit)
	}
	return fmt.Sprintf("at most %d workspaces may run at a time on this system", e.Limit)
}

// InvalidError says what is wrong with which field of a request.
type InvalidError struct {
	// Field is the name in the API.
	Field string
	// Problem is a phrase for people that follows the name.
	Problem string
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// refusal is the error for a verdict under which nothing was written.
func refusal(v store.Verdict, l store.Limits) error {
	switch v {
	case store.Changed, store.Kept:
		return nil
	case store.Busy:
		return ErrOperationInProgress
	case store.UserLimit:
		return &LimitError{Scope: "user", Limit: l.PerUser}
	case store.GlobalLimit:
		return &LimitError{Scope: "global", Limit: l.Global}
	}
	return fmt.Errorf("unknown verdict %q", v)
}
