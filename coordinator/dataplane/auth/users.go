package auth

import (
	"context"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/words"
)

// The roles.
const (
	RoleUser  = "user"
	RoleAdmin = "admin"
)

// MinPassword is the smallest number of characters of a password that a user chooses. [Auth.EnsureUser] accepts any non-empty
// password, because it comes from the operator's settings.
const MinPassword = 8

// InvalidError says what is wrong with a user's name, password or role, or with an access token.
type InvalidError struct {
	// Field is "username", "password" or "role" or, for a token, "name", "scopes" or "expires_in_days".
	Field string
	// Problem explains the error to people. In English it completes a sentence that begins with the field's name: "must
	// be …".
	Problem words.Text
}

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem.String() }

// EnsureUser makes sure that a user has this password and role. If the user is missing, it adds the user, and created
// is true. If anything differs, it changes that, which ends the user's sessions. It is idempotent and may be called by
// several processes at the same time. It returns [*InvalidError] and [ErrLastAdministrator].
func (a *Auth) EnsureUser(ctx context.Context, username, password, role string) (created bool, err error) {
	if err := validUser(username, password, role, 1); err != nil {
		return false, err
	}
	row, err := a.userByName(ctx, username)
	if errors.Is(err, ErrNoUser) {
		_, err := a.add(ctx, username, password, role)
		if !errors.Is(err, ErrUserExists) {
			return err == nil, err
		}
		// Another process was faster.
		row, err = a.userByName(ctx, username)
		if err != nil {
			return false, err
		}
	} else if err != nil {
		return false, err
	}
	same, err := a.hasher.verify(ctx, row.PasswordHash, password)
	if err != nil {
		return false, err
	}
	hash := row.PasswordHash
	if same && row.Role == role {
		return false, nil
	}
	if !same {
		if hash, err = a.hasher.hash(ctx, password); err != nil {
			return false, err
		}
	}
	return false, a.editUser(ctx, row.ID, accounts.UserChange{PasswordHash: &hash, Role: &role})
}

// AddUser adds a user. It returns [*InvalidError], [ErrUserExists] and [ErrPeopleOnly].
func (a *Auth) AddUser(ctx context.Context, username, password, role string) (User, error) {
	if err := accounts.PeopleOnly(ctx); err != nil {
		return User{}, err
	}
	if err := validUser(username, password, role, MinPassword); err != nil {
		return User{}, err
	}
	return a.add(ctx, username, password, role)
}

// add adds a user whose password and role were checked.
func (a *Auth) add(ctx context.Context, username, password, role string) (User, error) {
	if err := checkNewName(username); err != nil {
		return User{}, err
	}
	hash, err := a.hasher.hash(ctx, password)
	if err != nil {
		return User{}, err
	}
	row, created, err := a.store.AddUser(ctx, strings.TrimSpace(username), hash, role)
	if err != nil {
		return User{}, err
	}
	if !created {
		return User{}, ErrUserExists
	}
	return User{ID: row.ID, Username: row.Username, Role: row.Role}, nil
}

// SetPassword changes a password and ends the user's sessions and access tokens. It returns
// [*InvalidError] and [ErrNoUser].
func (a *Auth) SetPassword(ctx context.Context, username, password string) error {
	row, err := a.userByName(ctx, username)
	if err != nil {
		return err
	}
	if err := checkPassword(password, MinPassword); err != nil {
		return err
	}
	_, err = a.setPassword(ctx, row, password)
	return err
}

// setPassword is [Auth.SetPassword] for a user's row that was read, and for a password that was checked. It returns the
// row with the new hash.
func (a *Auth) setPassword(ctx context.Context, row accounts.User, password string) (accounts.User, error) {
	hash, err := a.hasher.hash(ctx, password)
	if err != nil {
		return row, err
	}
	row.PasswordHash = hash
	return row, a.editUser(ctx, row.ID, accounts.UserChange{PasswordHash: &hash})
}

// ChangePassword is [Auth.SetPassword] for users who change their own passwords: they must know the current one. It
// ends all sessions and access tokens, because others who knew the old password may have created some. It returns the
// token of a new session. It also returns the errors of [Auth.Login].
func (a *Auth) ChangePassword(ctx context.Context, username, present, password string, from Client) (
	token string, err error) {
	// Check this before the attempt counts: a new password that is too short is not a failed sign-in.
	if err := checkPassword(password, MinPassword); err != nil {
		return "", err
	}
	row, err := a.authenticate(ctx, username, present, from)
	if err != nil {
		return "", err
	}
	if row, err = a.setPassword(ctx, row, password); err != nil {
		a.takeBack(ctx, username, from, err)
		return "", err
	}
	token, _, err = a.startSession(ctx, row, from)
	return token, err
}

// SetDisabled disables or enables a user. A disabled user cannot sign in, and the user's sessions and access tokens
// end. Workspaces stay. It returns [ErrNoUser] and [ErrLastAdministrator].
func (a *Auth) SetDisabled(ctx context.Context, username string, disabled bool) error {
	row, err := a.userByName(ctx, username)
	if err != nil {
		return err
	}
	return a.editUser(ctx, row.ID, accounts.UserChange{Disabled: &disabled})
}

// userByName reads a user by name, or returns [ErrNoUser]. It does not look up invalid names.
func (a *Auth) userByName(ctx context.Context, username string) (accounts.User, error) {
	if checkUsername(username) != nil {
		return accounts.User{}, ErrNoUser
	}
	row, err := a.store.UserByName(ctx, strings.TrimSpace(username))
	if errors.Is(err, postgres.ErrNotFound) {
		return accounts.User{}, ErrNoUser
	}
	return row, err
}

// checkPassword checks the length of a password: at least minPassword characters.
func checkPassword(password string, minPassword int) error {
	if n := utf8.RuneCountInString(password); n < minPassword {
		return &InvalidError{"password",
			words.Of("problem.rule.at_least", words.Values{"Min": minPassword, "Given": n})}
	}
	if len(password) > MaxPassword {
		return &InvalidError{"password", words.Of("problem.rule.at_most_bytes", words.Values{"Max": MaxPassword})}
	}
	return nil
}

// validUser returns an [*InvalidError] for the first rule that is broken.
func validUser(username, password, role string, minPassword int) error {
	if err := checkUsername(username); err != nil {
		return err
	}
	if err := checkPassword(password, minPassword); err != nil {
		return err
	}
	return checkRole(role)
}

func checkRole(role string) error {
	if role != RoleUser && role != RoleAdmin {
		return &InvalidError{"role", words.Of("problem.rule.role", nil)}
	}
	return nil
}

// checkUsername accepts one visible word, such as a name in another system or a mail address.
func checkUsername(username string) error {
	if !utf8.ValidString(username) {
		return &InvalidError{"username", words.Of("problem.rule.utf8", nil)}
	}
	name := strings.TrimSpace(username)
	if n := utf8.RuneCountInString(name); n < 1 || n > 255 {
		return &InvalidError{"username", words.Of("problem.rule.length", words.Values{"Max": 255, "Given": n})}
	}
	for _, r := range name {
		if unicode.IsSpace(r) || !unicode.IsPrint(r) {
			return &InvalidError{"username", words.Of("problem.rule.spaces", nil)}
		}
	}
	return nil
}
