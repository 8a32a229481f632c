package codehub

import (
	"context"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/command/doctor"
	"github.com/codehub/gateway/coordinator/guard"
)

// examine examines the installation once after the process has started: a reload would find nothing new. The
// examination stops with the configuration.
type examine struct {
	app      *App
	settings command.Settings
}

// Handle starts the examination when Caddy reports that its servers serve requests.
func (e examine) Handle(context.Context, caddy.Event) error {
	if !e.app.first {
		return nil
	}
	go guard.Run("looking at the installation after the start", func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		defer context.AfterFunc(e.app.context, cancel)()
		if e.app.WaitReady(ctx) == nil {
			doctor.LogAtStart(ctx, e.settings, e.app.logger)
		}
	})
	return nil
}

// Interface guard.
var _ caddyevents.Handler = examine{}
