package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
)

// Settings are the settings of an installation, with their placeholders replaced.
type Settings struct {
	Options coordinator.Options
	Live    coordinator.Settings
	// PublicURL is the setting public_url, "" if it is not set. MainHost is the host where people sign in.
	PublicURL, MainHost string
	// Servers are Caddy's servers that serve the installation.
	Servers []site.Server
}

// Resolver resolves the configuration of the app codehub in this environment. It leaves Servers out.
type Resolver func(app json.RawMessage) (Settings, error)

// configLong ends the help of every command that reads the configuration.
const configLong = `

The settings are read from the same configuration that Caddy runs with, and their
placeholders, such as {env.DATABASE_URL}, are replaced in this environment.`

// WithSettings makes cmd a command without arguments that reads the configuration and opens no connection.
func (resolve Resolver) WithSettings(cmd *cobra.Command,
	action func(context.Context, *cobra.Command, Settings) error) *cobra.Command {
	read := resolve.reads(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := Arguments(cmd, 0)(args); err != nil {
			return Usage(cmd, err)
		}
		settings, err := read()
		if err != nil {
			return Usage(cmd, err)
		}
		return action(cmd.Context(), cmd, settings)
	}
	return cmd
}

// reads adds the flags that name the configuration to cmd, and returns the function that reads the settings from it.
func (resolve Resolver) reads(cmd *cobra.Command) func() (Settings, error) {
	cmd.Long += configLong
	HideDatabase(cmd.Flags())
	var file, adapter string
	cmd.Flags().StringVarP(&file, "config", "c", "Caddyfile", "configuration to read the settings from")
	cmd.Flags().StringVarP(&adapter, "adapter", "a", "", "config adapter (default: caddyfile, except for .json)")
	return func() (Settings, error) { return resolve.readSettings(file, adapter) }
}

// HideDatabase hides --database from the help of commands that do not use it. They refuse the flag with an error of
// their own.
func HideDatabase(flags *pflag.FlagSet) {
	flags.String("database", "", "")
	_ = flags.MarkHidden("database") // cannot fail: it is there
}

// readSettings returns the app's settings from a configuration, resolved as when Caddy starts.
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
			HTTP    struct {
				Servers map[string]json.RawMessage `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal(text, &config); err != nil {
		return Settings{}, fmt.Errorf("reading %s: %w", file, err)
	}
	if config.Apps.CodeHub == nil {
		return Settings{}, fmt.Errorf("%s has no codehub block in its global options: is it the configuration "+
			"of the installation?", file)
	}
	settings, err := resolve(config.Apps.CodeHub)
	if err != nil {
		return Settings{}, fmt.Errorf("the settings in %s cannot be used here:\n%w", file, err)
	}
	for _, name := range slices.Sorted(maps.Keys(config.Apps.HTTP.Servers)) {
		if text := config.Apps.HTTP.Servers[name]; bytes.Contains(text, []byte(`"handler":"codehub`)) {
			settings.Servers = append(settings.Servers, serverOf(name, text))
		}
	}
	return settings, nil
}

// serverOf returns the relevant configuration of a server. Whether it ends TLS follows from its listeners, its
// policies, and the hosts for which Caddy gets certificates.
func serverOf(name string, text json.RawMessage) site.Server {
	var c struct {
		Listen        []string          `json:"listen"`
		MaxHeader     int               `json:"max_header_bytes"`
		Policies      []json.RawMessage `json:"tls_connection_policies"`
		Trusted       json.RawMessage   `json:"trusted_proxies"`
		TrustedUnix   bool              `json:"trusted_proxies_unix"`
		TrustedStrict int               `json:"trusted_proxies_strict"`
		Automatic     struct {
			Disable bool     `json:"disable"`
			Skip    []string `json:"skip"`
		} `json:"automatic_https"`
		Routes []struct {
			Match []struct {
				Host []string `json:"host"`
			} `json:"match"`
		} `json:"routes"`
	}
	_ = json.Unmarshal(text, &c) // unreadable parts count as absent
	s := site.Server{
		Name: name, MaxHeader: c.MaxHeader, TLS: len(c.Policies) > 0, Trusts: len(c.Trusted) > 0 || c.TrustedUnix, Strict: c.TrustedStrict > 0,
	}
	onlyHTTP := len(c.Listen) > 0
	for _, address := range c.Listen {
		s.TLS = s.TLS || strings.HasSuffix(address, ":443")
		onlyHTTP = onlyHTTP && strings.HasSuffix(address, ":80")
	}
	for _, r := range c.Routes {
		for _, m := range r.Match {
			for _, host := range m.Host {
				s.TLS = s.TLS || !onlyHTTP && !c.Automatic.Disable && !slices.Contains(c.Automatic.Skip, host)
			}
		}
	}
	return s
}
