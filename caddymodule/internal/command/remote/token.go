package remote

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http/cookiejar"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// Token is `caddy codehub token`.
func Token(command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "token <command>", Short: "Makes, lists and revokes personal access tokens",
		Long: `Makes, lists and revokes your personal access tokens at a running server. With one, a program uses the
API and your workspaces in your name, as far as the token's scopes reach.`,
		Example: `  $ caddy codehub token list
  $ caddy codehub token revoke backup`,
	}
	command.HideDatabase(cmd.PersistentFlags())
	command.Group(cmd, tokenCreate(), tokenList(), tokenRevoke())
	return cmd
}

func tokenCreate() *cobra.Command {
	cmd := &cobra.Command{
		Use: "create NAME", Short: "Makes a personal access token",
		Long: `Makes a personal access token and prints its secret, which is shown this once. No token makes another
one: the command signs in with your user name and password, and out again. The password is read
from standard input. Who signs in through another provider makes tokens in the dashboard.

Scopes: read (everything of the API), write (changes of your workspaces; includes read), workspace
(the applications in your workspaces), admin (an administrator's rights, if you have them).`,
		Example: `  $ caddy codehub token create backup --user ann --scope read --days 365
  $ caddy codehub token create build --user ann --scope write,workspace < password.txt`,
	}
	scopes := cmd.Flags().StringSlice("scope", []string{string(auth.ScopeWrite), string(auth.ScopeWorkspace)},
		"what it may do: read, write, workspace, admin")
	days := cmd.Flags().Int("days", auth.DefaultTokenDays,
		fmt.Sprintf("for how long it is valid, 1 to %d", auth.MaxTokenDays))
	name := cmd.Flags().String("user", "", "your user name (default: asked for at a terminal)")
	address := cmd.Flags().String("url", "", "address of the server (default: where you are logged in, or CODEHUB_URL)")
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := command.Arguments(cmd, 1)(args); err != nil {
			return command.Usage(cmd, err)
		}
		server := cmp.Or(*address, os.Getenv(serverVariable))
		if server == "" {
			stored, err := readLogin()
			if err != nil {
				return command.Fail(cmd, exitFailed, err)
			}
			server = stored.URL
		}
		at, err := parseServer(cmd.Context(), server)
		user := *name
		if err == nil && user == "" && command.IsTerminal(cmd) {
			user = ask(cmd, "User name: ")
		}
		if err == nil && user == "" {
			err = fmt.Errorf("who are you? Add --user NAME")
		}
		if err != nil {
			return command.Usage(cmd, err)
		}
		made, err := createToken(cmd, newClient(at, ""), user, map[string]any{
			"name": args[0], "scopes": *scopes, "expires_in_days": *days,
		})
		switch {
		case err != nil:
			return command.Fail(cmd, exitCode(err), err)
		case *asJSON:
			return command.PrintJSON(cmd.OutOrStdout(), made)
		}
		fmt.Fprintln(cmd.OutOrStdout(), made.Secret)
		return nil
	}
	return cmd
}

// createToken reads the person's password, signs in with it, creates the access token, and signs out.
func createToken(cmd *cobra.Command, c *Client, user string, of map[string]any) (made v1.NewToken, err error) {
	password, err := command.ReadSecret(cmd, "password", "Password: ")
	if err != nil {
		return made, err
	}
	if c.http.Jar, err = cookiejar.New(nil); err != nil {
		return made, err
	}
	ctx := cmd.Context()
	if err := c.Do(ctx, "POST", "auth/login", map[string]any{"username": user, "password": password}, nil); err != nil {
		return made, err
	}
	err = c.Do(ctx, "POST", "tokens", of, &made)
	if end := c.Do(ctx, "POST", "auth/logout", nil, nil); err == nil {
		err = end
	}
	return made, err
}

func tokenList() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Short: "Lists your personal access tokens",
		Long: `Lists your personal access tokens, the newest first, as a table, or with --json as an array of the objects
of the API's GET /tokens. The secrets are not stored anywhere.`,
		Example: `  $ caddy codehub token list
  $ caddy codehub token list --json | jq -r '.[] | select(.last_used_at == null) | .name'`,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return Only(cmd, command.Arguments(cmd, 0), func(ctx context.Context, c *Client, _ []string) error {
		tokens, err := c.tokens(ctx)
		switch {
		case err != nil:
			return err
		case *asJSON:
			return command.PrintJSON(cmd.OutOrStdout(), tokens)
		}
		return printTokens(cmd.OutOrStdout(), tokens)
	})
}

// tokens returns the person's access tokens.
func (c *Client) tokens(ctx context.Context) ([]v1.Token, error) {
	var list v1.List[v1.Token]
	err := c.Do(ctx, "GET", "tokens", nil, &list)
	return list.Items, err
}

func printTokens(out io.Writer, tokens []v1.Token) error {
	if len(tokens) == 0 {
		fmt.Fprintln(out, "You have no access token.")
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SCOPES\tEXPIRES\tLAST USED\tID\tNAME")
	for _, t := range tokens {
		used := "never"
		if t.LastUsedAt != nil {
			used = t.LastUsedAt.Local().Format(time.DateTime)
		}
		scopes := make([]string, len(t.Scopes))
		for i, s := range t.Scopes {
			scopes[i] = string(s)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", strings.Join(scopes, ","),
			t.ExpiresAt.Local().Format(time.DateTime), used, t.ID, t.Name)
	}
	return w.Flush()
}

func tokenRevoke() *cobra.Command {
	cmd := &cobra.Command{
		Use: "revoke TOKEN", Short: "Revokes a personal access token",
		Long: `Revokes a personal access token, named by its name or id. What is open with it ends at once. The token
with which you are logged in needs the scope write for that.`,
		Example: `  $ caddy codehub token revoke backup`,
	}
	return Only(cmd, command.Arguments(cmd, 1), func(ctx context.Context, c *Client, args []string) error {
		tokens, err := c.tokens(ctx)
		if err != nil {
			return err
		}
		var found []v1.Token
		for _, t := range tokens {
			if t.ID == args[0] || t.Name == args[0] {
				found = append(found, t)
			}
		}
		switch len(found) {
		case 0:
			return &UnknownError{fmt.Sprintf("you have no access token %q; to see them: caddy codehub token list", args[0])}
		case 1:
		default:
			var text strings.Builder
			fmt.Fprintf(&text, "several tokens are called %q; write the id of one:\n", args[0])
			_ = printTokens(&text, found)
			return &UnknownError{strings.TrimSpace(text.String())}
		}
		if err := c.Do(ctx, "DELETE", "tokens/"+found[0].ID, nil, nil); err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(), "%s is revoked.\n", found[0].Name)
		return nil
	})
}
