package oidc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// claims are what the provider says about a user.
type claims map[string]any

// claims verifies the ID token. Claims that the settings name but the token lacks are requested from the provider's
// userinfo.
func (h *Handler) claims(ctx context.Context, p *provider, token *oauth2.Token, nonce string) (claims, error) {
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, errors.New("the identity provider sent no ID token")
	}
	id, err := p.VerifierContext(ctx, &oidc.Config{ClientID: h.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, fmt.Errorf("verifying the ID token: %w", err)
	}
	if id.Nonce != nonce {
		return nil, errors.New("the ID token is that of another sign-in")
	}
	c := make(claims)
	if err := id.Claims(&c); err != nil {
		return nil, fmt.Errorf("reading the ID token: %w", err)
	}
	if c[h.UsernameClaim] != nil && c[h.GroupsClaim] != nil || p.UserInfoEndpoint() == "" {
		return c, nil
	}
	info, err := p.UserInfo(ctx, oauth2.StaticTokenSource(token))
	if err != nil {
		return nil, fmt.Errorf("asking the identity provider about the user: %w", err)
	}
	if info.Subject != id.Subject {
		return nil, errors.New("the identity provider's userinfo is about another user")
	}
	more := make(claims)
	if err := info.Claims(&more); err != nil {
		return nil, fmt.Errorf("reading the userinfo: %w", err)
	}
	maps.Copy(more, c) // signed claims take precedence
	return more, nil
}

// text returns a claim that is a text.
func (c claims) text(name string) string { s, _ := c[name].(string); return s }

// list returns a claim that is a list of texts, or one text.
func (c claims) list(name string) []string {
	switch v := c[name].(type) {
	case string:
		return []string{v}
	case []any:
		var out []string
		for _, item := range v {
			if s, ok := item.(string); ok {
				out = append(out, s)
			}
		}
		return out
	}
	return nil
}

// external turns the claims into the user who signs in, as the settings say. It returns [errGroup] if the settings do
// not let the user's groups sign in.
func (h *Handler) external(c claims) (auth.External, error) {
	groups := c.list(h.GroupsClaim)
	inOne := func(of []string) bool {
		return slices.ContainsFunc(groups, func(g string) bool { return slices.Contains(of, g) })
	}
	e := auth.External{
		Issuer: h.Issuer, Subject: c.text("sub"), Name: c.text(h.UsernameClaim),
		Session: c.text("sid"), Create: h.CreateUsers,
	}
	if iss := c.text("iss"); iss != "" {
		e.Issuer = iss
	}
	admin := inOne(h.AdminGroups)
	if len(h.AllowedGroups) > 0 && !admin && !inOne(h.AllowedGroups) {
		return auth.External{}, errGroup
	}
	switch {
	case admin:
		e.Role = auth.RoleAdmin
	case len(h.AdminGroups) > 0:
		e.Role = auth.RoleUser
	}
	return e, nil
}
