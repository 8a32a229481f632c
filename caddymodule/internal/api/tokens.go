package api

import (
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// listTokens is GET /tokens: the user's personal access tokens, without their secrets.
func (c *call) listTokens() error {
	tokens, err := c.Auth.Tokens(c.r.Context(), c.user.ID)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, v1.ListOf(v1.TokensOf(tokens)))
}

// createToken is POST /tokens {"name": …, "scopes": […], "expires_in_days": n}: it creates a
// personal access token and answers 201 with it. Only this answer has its secret.
func (c *call) createToken() error {
	in := struct {
		Name   textField    `json:"name"`
		Scopes []auth.Scope `json:"scopes"`
		Days   int          `json:"expires_in_days"`
	}{Days: auth.DefaultTokenDays}
	if err := c.decode(&in); err != nil {
		return err
	}
	token, secret, err := c.Auth.CreateToken(c.r.Context(), c.grant, in.Name.text, in.Scopes, in.Days)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusCreated, v1.NewToken{Token: v1.TokenOf(token), Secret: secret})
}

// revokeToken is DELETE /tokens/{id}: it ends a personal access token and everything that is open
// with it.
func (c *call) revokeToken() error {
	if err := c.Auth.RevokeToken(c.r.Context(), c.user.ID, c.r.PathValue("id")); err != nil {
		return err
	}
	return c.sendNothing(http.StatusNoContent)
}
