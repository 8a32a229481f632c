package remote

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// Login is `caddy codehub login`.
func Login(command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "login [URL]", Short: "Signs in at a server with a personal access token",
		Long: `Signs in at a running server, for the commands workspace and token. The address is that of the
dashboard: https, unless it begins with http:// or a server on this machine, such as localhost:8080,
speaks no TLS. The token is made there, or by caddy codehub token create; it needs the scope read,
and write to change something. It is read from standard input, never from arguments: at a
terminal it is asked for and not shown, otherwise the first line is the token.

The server is asked whether the token is valid. Then both are stored in your own configuration,
which only you can read. The environment variables CODEHUB_URL and CODEHUB_TOKEN win over that.`,
		Example: `  $ caddy codehub login https://codehub.example.com
  $ caddy codehub login https://codehub.example.com < token.txt`,
	}
	insecure := cmd.Flags().Bool("insecure", false, "send the token over http, where others may read it")
	command.HideDatabase(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) > 1 {
			return command.Usage(cmd, command.Arguments(cmd, 1)(args))
		}
		server, err := parseServer(cmd.Context(), whichServer(cmd, args))
		if err == nil && server.Scheme == "http" && !site.IsLocal(server.Host) && !*insecure {
			err = errors.New("over http others may read the token: write https, or add --insecure")
		}
		if err != nil {
			return command.Usage(cmd, err)
		}
		if err := signIn(cmd, newClient(server, "")); err != nil {
			return command.Fail(cmd, exitCode(err), err)
		}
		return nil
	}
	return cmd
}

// whichServer returns the server from the arguments, the environment or the person at the terminal.
func whichServer(cmd *cobra.Command, args []string) string {
	if len(args) > 0 {
		return args[0]
	}
	if at := os.Getenv(serverVariable); at != "" || !command.IsTerminal(cmd) {
		return at
	}
	return ask(cmd, "Address of the server: ")
}

// ask asks for a line at the terminal.
func ask(cmd *cobra.Command, question string) string {
	fmt.Fprint(cmd.ErrOrStderr(), question)
	line, _ := bufio.NewReader(cmd.InOrStdin()).ReadString('\n')
	return strings.TrimSpace(line)
}

// signIn reads a token, checks it against the server, and stores both.
func signIn(cmd *cobra.Command, c *Client) error {
	token, err := command.ReadSecret(cmd, "token", "Token: ")
	if err != nil {
		return err
	}
	if c.token = strings.TrimSpace(token); !strings.HasPrefix(c.token, auth.TokenPrefix) {
		return fmt.Errorf("this is no access token: it begins with %s; make one in the dashboard, under your name",
			auth.TokenPrefix)
	}
	var me v1.User
	if err := c.Do(cmd.Context(), "GET", "me", nil, &me); err != nil {
		return err
	}
	file, err := writeLogin(login{c.Server(), c.token})
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "Signed in at %s as %s. The token is kept in %s.\n", c.Server(), me.Username, file)
	return nil
}

// Logout is `caddy codehub logout`.
func Logout(command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "logout", Short: "Forgets where you are signed in",
		Long: `Removes the address and the token that login has stored. The token stays valid elsewhere until it
is revoked: caddy codehub token revoke.`,
		Example: `  $ caddy codehub logout`,
	}
	command.HideDatabase(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := command.Arguments(cmd, 0)(args); err != nil {
			return command.Usage(cmd, err)
		}
		file, err := loginFile()
		if err != nil {
			return err
		}
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing your login: %w", err)
		}
		fmt.Fprintln(cmd.OutOrStdout(), "You are logged in nowhere. The token stays valid until it is revoked.")
		return nil
	}
	return cmd
}
