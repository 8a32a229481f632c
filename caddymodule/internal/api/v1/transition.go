package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/store"
)

// Transition is one transition of a workspace's history, as programs see it.
type Transition struct {
	ID int64     `json:"id"`
	At time.Time `json:"at"`
	// The changed field, its old and new value, and the reason.
	Kind    store.TransitionKind `json:"kind"`
	Old     *string              `json:"old_value"`
	New     *string              `json:"new_value"`
	Message *string              `json:"message"`
	// The cause, such as api, gateway, ttl or controller, and the user if a person requested it.
	Cause    string  `json:"cause"`
	UserID   *string `json:"user_id"`
	Username *string `json:"username"`
}

// TransitionOf returns t as programs see it.
func TransitionOf(t store.Transition) Transition {
	return Transition{
		ID: t.ID, At: t.At.UTC(), Kind: t.Kind, Old: orNull(t.Old), New: orNull(t.New), Message: orNull(t.Message),
		Cause: t.Cause, UserID: orNull(t.UserID), Username: orNull(t.Username),
	}
}
