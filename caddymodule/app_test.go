package codehub

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/internal/settings"
)

// required contains the settings that have no default. Their values name no real servers.
func required() App {
	return App{App: settings.App{Database: "postgres://codehub@db.example/codehub", Redis: "redis://redis.example:6379/0"}}
}

func resolveOrFail(t *testing.T, a App) settings.Resolved {
	t.Helper()
	r, err := a.Resolve(caddy.NewReplacer())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestUnknownFieldsOfTheJSONAreRefused(t *testing.T) {
	err := caddy.Validate(&caddy.Config{
		Admin: &caddy.AdminConfig{Disabled: true},
		AppsRaw: caddy.ModuleMap{
			"codehub": json.RawMessage(`{"database": "{env.X}", "timeouts": {"resting": "5m"}}`),
		},
	})
	if err == nil || !strings.Contains(err.Error(), `"resting"`) {
		t.Errorf("got %v", err)
	}
}

func TestHandlersNeedTheApp(t *testing.T) {
	err := caddy.Validate(&caddy.Config{
		Admin: &caddy.AdminConfig{Disabled: true},
		AppsRaw: caddy.ModuleMap{
			"http": json.RawMessage(`{"servers": {"s": {"listen": ["127.0.0.1:0"], "routes": [{"handle": [{"handler": "codehub_api"}]}]}}}`),
		},
	})
	if err == nil || !strings.Contains(err.Error(), "add a `codehub { … }` block to the global options") {
		t.Errorf("got %v", err)
	}
}

// TestValidatingNeedsNoServers: a configuration can be validated on a machine that cannot reach its servers.
func TestValidatingNeedsNoServers(t *testing.T) {
	a := required()
	raw, err := json.Marshal(&a)
	if err != nil {
		t.Fatal(err)
	}
	err = caddy.Validate(&caddy.Config{
		Admin:   &caddy.AdminConfig{Disabled: true},
		AppsRaw: caddy.ModuleMap{"codehub": raw},
	})
	if err != nil {
		t.Error(err)
	}
	if n := heldCoordinators(); n != 0 {
		t.Errorf("%d coordinators are still held", n)
	}
}
