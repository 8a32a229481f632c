package devenv

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// Provider is a running OpenID Connect provider, on loopback, with one client.
type Provider struct {
	*server.Process
	// Issuer is the provider's address.
	Issuer, ClientID, ClientSecret string
}

// ProviderUser is a user who can sign in at the provider.
type ProviderUser struct {
	ID, Username, Password string
	// Group is the user's only group.
	Group string `json:"LastName"`
}

// OIDC starts an OpenID Connect provider for this test alone. It has these users and sends browsers back to redirect
// only.
func OIDC(t testing.TB, redirect string, users ...ProviderUser) *Provider {
	t.Helper()
	known := make(map[string]ProviderUser)
	for _, u := range users {
		known[u.ID] = u
	}
	text, err := json.Marshal(known)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "users.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := server.Scratch(false)
	if err != nil {
		t.Fatal(err)
	}
	bin, err := server.BuildOIDC(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	o := &Provider{ClientID: "codehub", ClientSecret: rand.Text()}
	web := server.Web{Name: "OIDC", Host: server.Loopback, Health: "/.well-known/openid-configuration"}
	o.Process, o.Issuer, _, err = server.StartWeb(s, web, func(p *server.Program, address string) {
		p.Argv = []string{bin}
		p.Env = append(p.Env, "ADDRESS="+address, "USERS_FILE="+file, "REDIRECT_URI="+redirect,
			"CLIENT_SECRET="+o.ClientSecret)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Stop() })
	return o
}
