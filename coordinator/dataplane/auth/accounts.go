package auth

import (
	"context"
	"encoding/base64"
	"errors"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/words"
)

// MaxUserLimit is the largest limit that a user can have.
const MaxUserLimit = 1_000_000

// MaxAccounts is the largest number of users on a page of [Auth.Accounts].
const MaxAccounts = 500

// Account is a user as administrators see them.
type Account struct {
	User
	// Disabled users cannot sign in.
	Disabled bool
	// HasPassword is false for users who only sign in elsewhere.
	HasPassword bool
	CreatedAt   time.Time
	// LastSignInAt is when the latest sign-in began, of those that have not expired. It is zero if there is none.
	LastSignInAt time.Time
	// Workspaces is the number of the user's workspaces that are not deleted. Running is the number of those that count
	// against the limits on running workspaces.
	Workspaces, Running int
	// MaxRunning and MaxWorkspaces are the user's own limits (SPEC 5); 0 means the general limits.
	MaxRunning, MaxWorkspaces int
}

func accountOf(o accounts.Overview) Account {
	return Account{
		User: User{ID: o.ID, Username: o.Username, Role: o.Role}, Disabled: o.Disabled(), HasPassword: o.PasswordHash != "",
		CreatedAt: o.CreatedAt, LastSignInAt: o.LastSignInAt, Workspaces: o.Workspaces, Running: o.Running,
		MaxRunning: o.MaxRunning, MaxWorkspaces: o.MaxWorkspaces,
	}
}

// Accounts lists at most limit users whose names contain the text, sorted by name. cursor is empty for the first page,
// and otherwise the value next of the previous page. next is empty on the last page. It returns [*InvalidError].
func (a *Auth) Accounts(ctx context.Context, text string, limit int, cursor string) (
	page []Account, next string, err error) {
	after, err := base64.RawURLEncoding.DecodeString(cursor)
	switch {
	case err != nil || !checkText(string(after)):
		return nil, "", &InvalidError{"cursor", words.Of("problem.rule.cursor", nil)}
	case limit < 1 || limit > MaxAccounts:
		return nil, "", &InvalidError{"limit", words.Of("problem.rule.from_1", words.Values{"Max": MaxAccounts})}
	}
	if !checkText(text) {
		return nil, "", &InvalidError{"q", words.Of("problem.rule.utf8", nil)}
	}
	// One row more than requested shows whether another page follows.
	rows, err := a.store.Overviews(ctx, text, string(after), limit+1)
	if err != nil {
		return nil, "", err
	}
	if len(rows) > limit {
		rows = rows[:limit]
		next = base64.RawURLEncoding.EncodeToString([]byte(rows[limit-1].Username))
	}
	page = make([]Account, len(rows))
	for i, r := range rows {
		page[i] = accountOf(r)
	}
	return page, next, nil
}

// AllAccounts lists all users by name.
func (a *Auth) AllAccounts(ctx context.Context) (all []Account, err error) {
	for cursor := ""; ; {
		page, next, err := a.Accounts(ctx, "", MaxAccounts, cursor)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); next == "" {
			return all, nil
		}
		cursor = next
	}
}

// checkText reports whether the text may be used in a query, for example as a part of a user's name.
func checkText(text string) bool {
	return postgres.Takes(text) && utf8.RuneCountInString(text) <= 255
}

// Account returns one user, or [ErrNoUser].
func (a *Auth) Account(ctx context.Context, id string) (Account, error) {
	if !checkText(id) {
		return Account{}, ErrNoUser
	}
	row, err := a.store.OverviewOf(ctx, id)
	if errors.Is(err, postgres.ErrNotFound) {
		err = ErrNoUser
	}
	return accountOf(row), err
}

// AccountChange is an administrator's change of a user; nil fields keep their values.
type AccountChange struct {
	Role, Password *string
	Disabled       *bool
	// MaxRunning and MaxWorkspaces are the user's own limits; 0 means the general limits.
	MaxRunning, MaxWorkspaces *int
}

// ChangeAccount makes the whole change or none of it. A new password or role, or disabling the user, ends the user's
// sign-ins and access tokens. A lower limit does not stop workspaces that run. It returns [*InvalidError], [ErrNoUser],
// [ErrLastAdministrator], [ErrOwnAccount] and, unless only limits change, [ErrPeopleOnly].
func (a *Auth) ChangeAccount(ctx context.Context, id string, c AccountChange) (Account, error) {
	if c.Role != nil || c.Password != nil || c.Disabled != nil { // even if it turns out to change nothing
		if err := accounts.PeopleOnly(ctx); err != nil {
			return Account{}, err
		}
	}
	if id == audit.Of(ctx).ID && (c.Disabled != nil && *c.Disabled || c.Role != nil && *c.Role != RoleAdmin) {
		return Account{}, ErrOwnAccount
	}
	present, err := a.Account(ctx, id)
	if err != nil {
		return Account{}, err
	}
	change := accounts.UserChange{Disabled: c.Disabled, MaxRunning: c.MaxRunning, MaxWorkspaces: c.MaxWorkspaces}
	for field, limit := range map[string]*int{"limits.max_running": c.MaxRunning, "limits.max_workspaces": c.MaxWorkspaces} {
		if limit != nil && (*limit < 0 || *limit > MaxUserLimit) {
			return Account{}, &InvalidError{field, words.Of("problem.rule.from_1", words.Values{"Max": MaxUserLimit})}
		}
	}
	if c.Role != nil && *c.Role != present.Role { // an unchanged role ends no session
		if err := checkRole(*c.Role); err != nil {
			return Account{}, err
		}
		change.Role = c.Role
	}
	if c.Password != nil {
		if err := checkPassword(*c.Password, MinPassword); err != nil {
			return Account{}, err
		}
		hash, err := a.hasher.hash(ctx, *c.Password)
		if err != nil {
			return Account{}, err
		}
		change.PasswordHash = &hash
	}
	if err := a.editUser(ctx, present.ID, change); err != nil {
		return Account{}, err
	}
	return a.Account(ctx, present.ID)
}

// SetLimits changes a user's limits by name, like [Auth.ChangeAccount].
func (a *Auth) SetLimits(ctx context.Context, username string, c AccountChange) (Account, error) {
	row, err := a.userByName(ctx, username)
	if err != nil {
		return Account{}, err
	}
	return a.ChangeAccount(ctx, row.ID, AccountChange{MaxRunning: c.MaxRunning, MaxWorkspaces: c.MaxWorkspaces})
}

// SignOut ends all sign-ins and access tokens of a user. It returns [ErrNoUser].
func (a *Auth) SignOut(ctx context.Context, id string) error {
	if parsed, err := uuid.Parse(id); err != nil || parsed.String() != id {
		return ErrNoUser
	}
	return a.editUser(ctx, id, accounts.UserChange{SignOut: true})
}

// SignOutByName is [Auth.SignOut] for a user by name.
func (a *Auth) SignOutByName(ctx context.Context, username string) error {
	row, err := a.userByName(ctx, username)
	if err != nil {
		return err
	}
	return a.SignOut(ctx, row.ID)
}

// Unlock forgets the failed sign-ins of a user from all addresses, so that the user can sign in immediately. It returns
// [ErrNoUser] and [ErrPeopleOnly].
func (a *Auth) Unlock(ctx context.Context, id string) error {
	user, err := a.Account(ctx, id)
	if err != nil {
		return err
	}
	_, err = a.store.Unlock(ctx, user.ID, keyOf("account", accountName(user.Username)))
	return err
}

// UnlockByName is [Auth.Unlock] for a user by name.
func (a *Auth) UnlockByName(ctx context.Context, username string) error {
	row, err := a.userByName(ctx, username)
	if err != nil {
		return err
	}
	return a.Unlock(ctx, row.ID)
}

// editUser changes a user. If the change ends sessions, editUser immediately ends everything that is open with them in
// this process. It returns [ErrNoUser] and [ErrLastAdministrator].
func (a *Auth) editUser(ctx context.Context, id string, c accounts.UserChange) error {
	ended, err := a.store.EditUser(ctx, id, c)
	if errors.Is(err, postgres.ErrNotFound) {
		return ErrNoUser
	}
	a.sessions.cache.revoke(ended...)
	return err
}
