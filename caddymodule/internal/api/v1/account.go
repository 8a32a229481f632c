package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// Account is a user as administrators see one.
type Account struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	Role     string `json:"role"`
	Disabled bool   `json:"disabled"`
	// False if the user can only sign in elsewhere.
	HasPassword bool      `json:"has_password"`
	CreatedAt   time.Time `json:"created_at"`
	// When the latest sign-in that has not expired began; null without one.
	LastSignInAt *time.Time `json:"last_sign_in_at"`
	// The workspaces that are not deleted, and how many of them run or are about to run.
	Workspaces int `json:"workspaces"`
	Running    int `json:"running"`
	// The user's own limits; null where the general ones apply.
	Limits AccountLimits `json:"limits"`
}

// AccountLimits are the limits of one user.
type AccountLimits struct {
	MaxRunning    *int `json:"max_running"`
	MaxWorkspaces *int `json:"max_workspaces"`
}

// AccountOf returns a user for an administrator.
func AccountOf(a auth.Account) Account {
	return Account{
		ID: a.ID, Username: a.Username, Role: a.Role, Disabled: a.Disabled, HasPassword: a.HasPassword,
		CreatedAt: a.CreatedAt, LastSignInAt: timeOrNull(a.LastSignInAt), Workspaces: a.Workspaces, Running: a.Running,
		Limits: AccountLimits{limitOrNull(a.MaxRunning), limitOrNull(a.MaxWorkspaces)},
	}
}
