package codehub

import (
	"encoding/json"
	"fmt"

	"github.com/caddyserver/caddy/v2"
	caddycmd "github.com/caddyserver/caddy/v2/cmd"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/command/doctor"
	"github.com/codehub/gateway/caddymodule/internal/command/remote"
	"github.com/codehub/gateway/caddymodule/internal/command/verify"
	"github.com/codehub/gateway/caddymodule/internal/command/workspaces"
	"github.com/codehub/gateway/caddymodule/internal/settings"
	"github.com/codehub/gateway/coordinator"
)

func init() {
	caddycmd.RegisterCommand(command.New(commandSettings,
		remote.Login, remote.Logout, remote.Token, workspaces.Command, doctor.Command, verify.Command))
}

// commandSettings resolves the configuration of the app for a command, as when Caddy starts.
func commandSettings(config json.RawMessage) (coordinator.Options, coordinator.Settings, error) {
	app := new(settings.App)
	if err := caddy.StrictUnmarshalJSON(config, app); err != nil {
		return coordinator.Options{}, coordinator.Settings{}, fmt.Errorf("reading the app codehub: %w", err)
	}
	r, err := app.Resolve(caddy.NewReplacer())
	return r.Options, r.Live, err
}
