package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/store"
)

// Transition is one transition of a workspace's history, as programs see it.
type Transition struct {
	ID int64     `json:"id"`
	At time.Time `json:"at"`
	// What changed, from what to what, and why.
	Kind    store.TransitionKind `json:"kind"`
	Old     *string              `json:"old_value"`
	New     *string              `json:"new_value"`
	Message *string              `json:"message"`
	// Through what it came, such as api, gateway, ttl or controller, and the user
	// where a person asked for it.
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
