package service

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

var (
	// ErrNotFound means that the workspace is unknown, deleted or another user's. The
	// error does not tell which.
	ErrNotFound = errors.New("workspace not found")
	// ErrOperationInProgress means that the desired state cannot change before the
	// operation in progress has ended (SPEC 1, contract 4).
	ErrOperationInProgress = errors.New("an operation is in progress")
	// ErrStale means that the workspace has changed since the caller read it. Nothing was changed.
	ErrStale = errors.New("the workspace has changed meanwhile")
	// ErrOvertaken means that another state was requested after this change was; see [Actor.Asked]. Nothing was
	// changed.
	ErrOvertaken = errors.New("somebody has asked for another state meanwhile")
	// ErrKeyTaken means that the key has already created a workspace, which was adopted for another user since.
	ErrKeyTaken = errors.New("the key has created something else")
	// ErrNotAwake means that the workspace cannot be kept awake, because it is not meant to run.
	ErrNotAwake = errors.New("the workspace is not awake: open it first")
	// ErrForbidden means that only administrators may do this.
	ErrForbidden = errors.New("only administrators may do this")
	// ErrCollected means that the deletion can no longer be undone: the files of the workspace are gone, or its
	// archives are being deleted.
	ErrCollected = errors.New("the deletion can no longer be undone: the files of the workspace are being " +
		"deleted or gone")
	// ErrDeleted means that the workspace is deleted, so nothing can be chosen about its files.
	ErrDeleted = errors.New("the workspace is deleted: undelete it first, and then recover it with a choice")
	// ErrArchivesUnknown means that the archives of a workspace cannot be listed now: the object store does not answer,
	// is not the recorded one, or the garbage collection is deleting archives. Nothing was changed.
	ErrArchivesUnknown = errors.New(
		"the archives cannot be looked at now; nothing was changed; try again in a few minutes")
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

// TooManyError means that the user has the maximum number of workspaces.
type TooManyError struct{ Limit int }

// Error implements error.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("a user may have at most %d workspaces", e.Limit)
}

// ImageError means that the actor may not choose this image_ref.
type ImageError struct {
	// Names are the configured images.
	Names []string
	// Free says that the actor may also give a reference.
	Free bool
}

// Error implements error.
func (e *ImageError) Error() string {
	return strings.TrimSuffix(e.Text().String(), ".")
}

// Text returns the error in words for people.
func (e *ImageError) Text() words.Text {
	key := "problem.image"
	if e.Free {
		key = "problem.image_or_reference"
	}
	return words.Of(key, words.Values{"Names": strings.Join(e.Names, ", ")})
}

// RevertError means that a workspace cannot go back to an archive. Nothing was changed.
type RevertError struct {
	// Problem is the reason, a sentence for people.
	Problem words.Text
}

// Error implements error.
func (e *RevertError) Error() string {
	sentence := e.Problem.String()
	return strings.ToLower(sentence[:1]) + strings.TrimSuffix(sentence[1:], ".")
}

// InvalidError is an invalid value of one field of a request.
type InvalidError struct {
	// Field is the field's name in the API.
	Field string
	// Problem is a phrase that explains to people what is wrong with the value. In English it follows the field's name:
	// "must be …".
	Problem words.Text
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem.String() }

// refusal returns the error for the outcome of a change that a user made to the workspace with that id. A limit in the
// error is the owner's own limit, if that can be read.
func (s *Service) refusal(ctx context.Context, o store.Outcome, userID string, id workspace.ID) error {
	limits := s.storeLimits()
	if o == store.UserLimit || o == store.WorkspaceLimit {
		if own, err := s.store.LimitsOf(ctx, limits, userID, id); err == nil {
			limits = own
		}
	}
	return outcomeError(o, limits)
}

// outcomeError returns the error for an outcome; nil if the change was made or not needed.
func outcomeError(o store.Outcome, l store.Limits) error {
	switch o {
	case store.Changed, store.Unchanged:
		return nil
	case store.Busy:
		return ErrOperationInProgress
	case store.Stale:
		return ErrStale
	case store.Overtaken:
		return ErrOvertaken
	case store.Taken:
		return ErrKeyTaken
	case store.Collected:
		return ErrCollected
	case store.Forbidden:
		return ErrForbidden
	case store.WorkspaceLimit:
		return &TooManyError{l.Workspaces}
	case store.UserLimit:
		return &LimitError{Scope: "user", Limit: l.PerUser}
	case store.GlobalLimit:
		return &LimitError{Scope: "global", Limit: l.Global}
	}
	return fmt.Errorf("unknown outcome %q", o)
}
