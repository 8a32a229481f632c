package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// User is the signed-in user in answers and pages.
type User struct {
	ID       string `json:"user_id"`
	Username string `json:"username"`
	Role     string `json:"role"`
}

// UserOf returns the fields of a user that clients may see.
func UserOf(u auth.User) User { return User{u.ID, u.Username, u.Role} }

// Session is one sign-in of the user.
type Session struct {
	ID         string    `json:"id"`
	Address    string    `json:"address"`
	Client     string    `json:"client"`
	CreatedAt  time.Time `json:"created_at"`
	LastUsedAt time.Time `json:"last_used_at"`
	ExpiresAt  time.Time `json:"expires_at"`
	Current    bool      `json:"current"`
}

// SessionsOf returns the user's sign-ins as programs see them.
func SessionsOf(open []auth.OpenSession) []Session {
	out := make([]Session, len(open))
	for i, s := range open {
		out[i] = Session{s.ID, s.Address, s.Agent, s.CreatedAt, s.LastUsedAt, s.ExpiresAt, s.Current}
	}
	return out
}
