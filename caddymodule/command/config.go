package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/caddyserver/caddy/v2/caddyconfig"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// serverTimeout bounds the first answer of a server to a command.
const serverTimeout = 10 * time.Second

// configLong ends the help of every command that reads the configuration.
const configLong = `

The settings are read from the same configuration that Caddy runs with, and their
placeholders, such as {env.DATABASE_URL}, are replaced in this environment.`

// servers is what a command works on that reads the configuration: the settings of the
// installation, and its database, which answers.
type servers struct {
	Settings
	store *store.Store
	cmd   *cobra.Command
}

// say tells the person what was done.
func (s servers) say(format string, args ...any) {
	fmt.Fprintf(s.cmd.OutOrStdout(), format+"\n", args...)
}

// configured completes cmd to a command that reads the configuration: flags, arguments,
// the connection to the database. usage refuses arguments before anything is read; action
// does the work.
func (resolve Resolver) configured(cmd *cobra.Command, usage func(args []string) error, action func(ctx context.Context, s servers, args []string) error) *cobra.Command {
	cmd.Long += configLong
	hideDatabase(cmd.Flags())
	var file, adapter string
	cmd.Flags().StringVarP(&file, "config", "c", "Caddyfile", "configuration to read the settings from")
	cmd.Flags().StringVarP(&adapter, "adapter", "a", "", "config adapter (default: caddyfile, except for .json)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		err := usage(args)
		if err == nil && cmd.Flags().Changed("database") {
			err = fmt.Errorf("%s takes the database from the configuration: leave --database out", cmd.Name())
		}
		if err != nil {
			return usageError(cmd, err)
		}
		settings, err := resolve.readSettings(file, adapter)
		if err != nil {
			return usageError(cmd, err)
		}
		db, err := store.Open(settings.Options.Database, postgres.Options{})
		if err != nil {
			return fmt.Errorf("the setting database: %w", err)
		}
		defer db.Close()
		if err := answers(cmd.Context(), db.Ping); err != nil {
			return fmt.Errorf("the database cannot be reached; check the setting database: %w", err)
		}
		return inWords(action(cmd.Context(), servers{settings, db, cmd}, args), args)
	}
	return cmd
}

// hideDatabase takes the flag that the commands user and migrate have out of the help of
// others. Given all the same, it is refused with words of its own.
func hideDatabase(flags *pflag.FlagSet) {
	flags.String("database", "", "")
	_ = flags.MarkHidden("database") // cannot fail: it is there
}

// arguments refuses any other number of arguments.
func arguments(cmd *cobra.Command, n int) func([]string) error {
	return func(args []string) error {
		if len(args) != n {
			return wrongCount(cmd, len(args), n)
		}
		return nil
	}
}

// answers reports whether a server answers ping in time.
func answers(ctx context.Context, ping func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, serverTimeout)
	defer cancel()
	return ping(ctx)
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
			return Settings{}, fmt.Errorf("there is no config adapter %q: leave --adapter out for a Caddyfile or JSON", adapter)
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
		return Settings{}, fmt.Errorf("%s has no codehub block in its global options: is it the configuration of the installation?", file)
	}
	s, err := resolve(config.Apps.CodeHub)
	if err != nil {
		return Settings{}, fmt.Errorf("the settings in %s cannot be used here:\n%w", file, err)
	}
	return s, nil
}

// confirm asks on standard input whether to go on. Any answer but yes is an error.
func confirm(cmd *cobra.Command, yes bool, question string) error {
	if yes {
		return nil
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "%s\nWrite yes to go on: ", question)
	line, err := bufio.NewReader(io.LimitReader(cmd.InOrStdin(), 1024)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading the answer from standard input: %w", err)
	}
	if err != nil { // the end of the input, also of one that is no terminal
		fmt.Fprintln(cmd.ErrOrStderr())
	}
	if !strings.EqualFold(strings.TrimSpace(line), "yes") {
		return errors.New("nothing was changed, because the answer was not yes; add --yes to be asked nothing")
	}
	return nil
}

// printJSON prints v, indented, for programs.
func printJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("printing JSON: %w", err)
	}
	return nil
}
