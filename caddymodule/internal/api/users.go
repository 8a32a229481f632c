package api

import (
	"cmp"
	"encoding/json"
	"net/http"

	"go.uber.org/zap"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/logkey"
)

// administrator requires the rights of an administrator; it runs after signedIn.
func administrator(handle func(*call) error) func(*call) error {
	return func(c *call) error {
		if !c.user.Admin() {
			return service.ErrForbidden
		}
		return handle(c)
	}
}

// listUsers is GET /users?limit&cursor&q, for administrators: a page of the users whose names contain
// q, by name.
func (c *call) listUsers() error {
	limit, err := c.number("limit", auth.MaxAccounts)
	if err != nil {
		return err
	}
	q := c.r.URL.Query()
	page, next, err := c.Auth.Accounts(c.r.Context(), q.Get("q"), cmp.Or(int(limit), service.DefaultPage), q.Get("cursor"))
	if err != nil {
		return err
	}
	return sendPage(c, page, next, v1.AccountOf)
}

// createUser is POST /users {"username": …, "password": …, "role": …}, for administrators: it adds a
// user, with the role user by default, and answers 201. It refuses an invalid field with 400, and a
// name that is taken with 409. Access tokens are refused (403).
func (c *call) createUser() error {
	in := struct {
		Username string `json:"username"`
		Password string `json:"password"`
		Role     string `json:"role"`
	}{Role: auth.RoleUser}
	if err := c.decode(&in); err != nil {
		return err
	}
	user, err := c.Auth.AddUser(c.r.Context(), in.Username, in.Password, in.Role)
	if err != nil {
		return err
	}
	c.Logger.Info("user added", zap.String(logkey.User, user.ID), zap.String(logkey.Role, user.Role), zap.String(logkey.By, c.user.ID))
	c.w.Header().Set("Location", "/api/v1/users/"+user.ID)
	return c.sendUser(http.StatusCreated, user.ID)
}

// getUser is GET /users/{id}, for administrators.
func (c *call) getUser() error { return c.sendUser(http.StatusOK, c.r.PathValue("id")) }

func (c *call) sendUser(status int, id string) error {
	account, err := c.Auth.Account(c.r.Context(), id)
	if err != nil {
		return err
	}
	return sendJSON(c.w, status, v1.AccountOf(account))
}

// limitField is a limit in a request's body. It may be missing, null, or a number. Null means the general limit.
type limitField struct{ value *int }

// UnmarshalJSON is called when the field is present, even if it is null.
func (f *limitField) UnmarshalJSON(b []byte) error {
	f.value = new(0)
	if string(b) == "null" {
		return nil
	}
	if err := json.Unmarshal(b, f.value); err != nil {
		return err
	}
	if *f.value == 0 {
		*f.value = -1 // which is refused: a zero would mean the general limit
	}
	return nil
}

// patchUser is PATCH /users/{id}, for administrators: it changes the given fields of role, disabled,
// password and limits, all or none, and answers with the user. A new role or password, and disabling, end
// the user's sign-ins and access tokens. Administrators cannot disable themselves or give up their own
// role, and at least one administrator must still be able to sign in (409). An access token can only
// change the limits (403).
func (c *call) patchUser() error {
	var in struct {
		Role     *string `json:"role"`
		Disabled *bool   `json:"disabled"`
		Password *string `json:"password"`
		Limits   struct {
			Running    limitField `json:"max_running"`
			Workspaces limitField `json:"max_workspaces"`
		} `json:"limits"`
	}
	if err := c.decode(&in); err != nil {
		return err
	}
	account, err := c.Auth.ChangeAccount(c.r.Context(), c.r.PathValue("id"), auth.AccountChange{
		Role: in.Role, Disabled: in.Disabled, Password: in.Password,
		MaxRunning: in.Limits.Running.value, MaxWorkspaces: in.Limits.Workspaces.value,
	})
	if err != nil {
		return err
	}
	c.Logger.Info("user changed", zap.String(logkey.User, account.ID), zap.String(logkey.By, c.user.ID),
		zap.Boolp(logkey.Disabled, in.Disabled), zap.Stringp(logkey.Role, in.Role), zap.Bool(logkey.Password, in.Password != nil),
		zap.Intp(logkey.MaxRunning, in.Limits.Running.value), zap.Intp(logkey.MaxWorkspaces, in.Limits.Workspaces.value))
	return sendJSON(c.w, http.StatusOK, v1.AccountOf(account))
}

// signOutUser is POST /users/{id}/sign-out, for administrators: all sign-ins and access tokens of the
// user end. Access tokens are refused (403).
func (c *call) signOutUser() error {
	id := c.r.PathValue("id")
	if err := c.Auth.SignOut(c.r.Context(), id); err != nil {
		return err
	}
	c.Logger.Info("user signed out", zap.String(logkey.User, id), zap.String(logkey.By, c.user.ID))
	return c.sendNothing(http.StatusNoContent)
}

// unlockUser is POST /users/{id}/unlock, for administrators: earlier wrong passwords no longer block the user's
// sign-in. Access tokens are refused (403).
func (c *call) unlockUser() error {
	id := c.r.PathValue("id")
	if err := c.Auth.Unlock(c.r.Context(), id); err != nil {
		return err
	}
	c.Logger.Info("user unlocked", zap.String(logkey.User, id), zap.String(logkey.By, c.user.ID))
	return c.sendNothing(http.StatusNoContent)
}
