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
)

func init() {
	caddycmd.RegisterCommand(command.New(commandSettings,
		remote.Login, remote.Logout, remote.Token, workspaces.Command, doctor.Command, verify.Command))
}

// commandSettings resolves the app's configuration for a command, in the same way as a start of Caddy does.
func commandSettings(config json.RawMessage) (command.Settings, error) {
	app := new(settings.App)
	if err := caddy.StrictUnmarshalJSON(config, app); err != nil {
		return command.Settings{}, fmt.Errorf("reading the app codehub: %w", err)
	}
	r, err := app.Resolve(caddy.NewReplacer())
	return examined(r), err
}

// examined returns the parts of the resolved settings that commands need.
func examined(r settings.Resolved) command.Settings {
	return command.Settings{Options: r.Options, Live: r.Live, PublicURL: r.Site.Written, MainHost: r.Site.MainHost}
}
