package devenv

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// Provider is a running OpenID Connect provider, on loopback, with one client.
type Provider struct {
	*server.Process
	// Issuer is the provider's address.
	Issuer, ClientID, ClientSecret string
}

// ProviderUser is somebody who can sign in at the provider.
type ProviderUser struct {
	ID, Username, Password string
	// Group is the user's only group.
	Group string `json:"LastName"`
}

// OIDC starts an OpenID Connect provider that is the test's own.
func OIDC(t testing.TB, redirect string, users ...ProviderUser) *Provider {
	t.Helper()
	s, err := server.Scratch(false)
	if err != nil {
		t.Fatal(err)
	}
	o, err := startProvider(context.Background(), s, redirect, users...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.Stop() })
	return o
}

// startProvider starts a provider that knows the users and sends browsers back to redirect
// only.
func startProvider(ctx context.Context, storage server.Storage, redirect string, users ...ProviderUser) (*Provider, error) {
	bin, err := server.BuildOIDC(ctx)
	if err != nil {
		return nil, err
	}
	p, err := storage.Program("OIDC")
	if err != nil {
		return nil, err
	}
	known := make(map[string]ProviderUser)
	for _, u := range users {
		known[u.ID] = u
	}
	text, err := json.Marshal(known)
	if err != nil {
		return nil, fmt.Errorf("encoding the provider's users: %w", err)
	}
	file := filepath.Join(storage.Dir, "users.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("writing the provider's users: %w", err)
	}
	port, err := server.FreePort()
	if err != nil {
		return nil, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	o := &Provider{Issuer: "http://" + address, ClientID: "codehub", ClientSecret: rand.Text()}
	p.Argv = []string{bin}
	p.Env = append(p.Env, "ADDRESS="+address, "USERS_FILE="+file, "REDIRECT_URI="+redirect, "CLIENT_SECRET="+o.ClientSecret)
	p.Ready = o.ping
	if o.Process, err = server.Start(p); err != nil {
		return nil, err
	}
	return o, nil
}

func (o *Provider) ping() error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(o.Issuer + "/.well-known/openid-configuration")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the discovery document answers %s", resp.Status)
	}
	return nil
}
