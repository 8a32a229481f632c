package command

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/codehub/gateway/coordinator"
)

// Settings are the settings of an installation, with their placeholders replaced.
type Settings struct {
	Options coordinator.Options
	Live    coordinator.Settings
}

// Resolver returns the settings in the configuration of the app codehub, as they apply in
// this environment.
type Resolver func(app json.RawMessage) (coordinator.Options, coordinator.Settings, error)

// configLong ends the help of every command that reads the configuration.
const configLong = `

The settings are read from the same configuration that Caddy runs with, and their
placeholders, such as {env.DATABASE_URL}, are replaced in this environment.`

// WithSettings completes cmd to a command without arguments that reads the configuration
// and connects to nothing.
func (resolve Resolver) WithSettings(cmd *cobra.Command,
	action func(context.Context, *cobra.Command, Settings) error) *cobra.Command {
	read := resolve.reads(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := Arguments(cmd, 0)(args); err != nil {
			return usageError(cmd, err)
		}
		settings, err := read()
		if err != nil {
			return usageError(cmd, err)
		}
		return action(cmd.Context(), cmd, settings)
	}
	return cmd
}

// reads gives cmd the flags that name the configuration, and returns what reads the settings
// in it.
func (resolve Resolver) reads(cmd *cobra.Command) func() (Settings, error) {
	cmd.Long += configLong
	HideDatabase(cmd.Flags())
	var file, adapter string
	cmd.Flags().StringVarP(&file, "config", "c", "Caddyfile", "configuration to read the settings from")
	cmd.Flags().StringVarP(&adapter, "adapter", "a", "", "config adapter (default: caddyfile, except for .json)")
	return func() (Settings, error) { return resolve.readSettings(file, adapter) }
}

// HideDatabase takes the flag that the commands user and migrate have out of the help of
// others. Given all the same, it is refused with words of its own.
func HideDatabase(flags *pflag.FlagSet) {
	flags.String("database", "", "")
	_ = flags.MarkHidden("database") // cannot fail: it is there
}

// readSettings returns the settings of the app in a configuration, resolved as when
// Caddy starts.
func (resolve Resolver) readSettings(file, adapter string) (Settings, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return Settings{}, fmt.Errorf("reading the configuration: %w: name it with --config", err)
	}
	if adapter == "" && filepath.Ext(file) != ".json" {
		adapter = "caddyfile"
	}
	if adapter != "" {
		a := caddyconfig.GetAdapter(adapter)
		if a == nil {
			return Settings{}, fmt.Errorf("there is no config adapter %q: "+
				"leave --adapter out for a Caddyfile or JSON", adapter)
		}
		if text, _, err = a.Adapt(text, map[string]any{"filename": file}); err != nil {
			return Settings{}, fmt.Errorf("adapting %s: %w", file, err)
		}
	}
	var config struct {
		Apps struct {
			CodeHub json.RawMessage `json:"codehub"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return Settings{}, fmt.Errorf("reading %s: %w", file, err)
	}
	if config.Apps.CodeHub == nil {
		return Settings{}, fmt.Errorf("%s has no codehub block in its global options: is it the configuration "+
			"of the installation?", file)
	}
	options, live, err := resolve(config.Apps.CodeHub)
	if err != nil {
		return Settings{}, fmt.Errorf("the settings in %s cannot be used here:\n%w", file, err)
	}
	return Settings{options, live}, nil
}
