package command

import (
	"context"
	"errors"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// userCommand is `caddy codehub user`. It works on the database directly, because it also adds the first user, and
// needs no configuration.
func userCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "user <command>", Short: "Manages users",
		Long: `Adds, lists and changes the users of a CodeHub installation. The case of letters
does not matter in a user's name.`,
		Example: `  $ caddy codehub user add ann
  $ caddy codehub user list`,
	}
	add := &cobra.Command{
		Use: "add NAME", Short: "Adds a user",
		Long: fmt.Sprintf(`Adds a user, who can sign in at once. The password has at least %d characters. The
schema of the database is brought up to date first, so this works before the first
start too.`, auth.MinPassword),
		Example: `  $ caddy codehub user add ann
  $ caddy codehub user add root@example.com --admin
  $ openssl rand -base64 18 | tee password.txt | caddy codehub user add bob`,
	}
	admin := add.Flags().Bool("admin", false, "make the user an administrator")
	add.RunE = withDatabase(1, func(ctx context.Context, d database, name string) error {
		return addUser(ctx, d, name, *admin)
	})
	list := &cobra.Command{
		Use: "list", Short: "Lists the users",
		Long: `Lists all users by name, as a table, or with --json as an array of objects with
"id", "username", "role" (user or admin), "disabled", "created_at", and the user's own
"max_running" and "max_workspaces", null where the limits of all users hold.`,
		Example: `  $ caddy codehub user list
  $ caddy codehub user list --json | jq -r '.[] | select(.disabled) | .username'`,
	}
	asJSON := list.Flags().Bool("json", false, "print JSON")
	list.RunE = withDatabase(0, func(ctx context.Context, d database, _ string) error {
		return listUsers(ctx, d, *asJSON)
	})
	passwd := &cobra.Command{
		Use: "passwd NAME", Short: "Changes a user's password",
		Long: `Changes the password of a user and signs the user out everywhere. The user admin
gets the password of the setting admin_password, if that is set, whenever Caddy starts
or loads a configuration.`,
		Example: `  $ caddy codehub user passwd ann
  $ caddy codehub user passwd ann < password.txt`,
		RunE: withDatabase(1, changePassword),
	}
	disable := &cobra.Command{
		Use: "disable NAME", Short: "Forbids a user to sign in",
		Long: `Forbids a user to sign in, and signs the user out everywhere. The user's workspaces
stay, and go to sleep when they are not used. The last administrator who can sign in
is not disabled.`,
		Example: "  $ caddy codehub user disable ann",
		RunE:    withDatabase(1, setDisabled(true, "%s can no longer sign in, and is signed out everywhere.")),
	}
	enable := &cobra.Command{
		Use: "enable NAME", Short: "Lets a disabled user sign in again",
		Long:    "Lets a user who was disabled sign in again, with the same password.",
		Example: "  $ caddy codehub user enable ann",
		RunE:    withDatabase(1, setDisabled(false, "%s can sign in again.")),
	}
	signOut := &cobra.Command{
		Use: "sign-out (NAME | --all)", Short: "Ends a user's sign-ins and access tokens, or everybody's",
		Long: `Ends all sign-ins and access tokens of a user, and what is open with them. The user can
sign in again.

With --all it does so for every user, and asks first. Do that after the database was
restored from a backup: sign-ins and access tokens that were ended since then would be
valid again, and so are the passwords of then.`,
		Example: `  $ caddy codehub user sign-out ann
  $ caddy codehub user sign-out --all`,
	}
	all := signOut.Flags().Bool("all", false, "sign everybody out")
	yes := signOut.Flags().BoolP("yes", "y", false, "do not ask")
	signOut.RunE = func(cmd *cobra.Command, args []string) error {
		names := 1
		if *all {
			names = 0
		}
		return withDatabase(names, func(ctx context.Context, d database, name string) error {
			return signOutUsers(ctx, d, name, *all, *yes)
		})(cmd, args)
	}
	unlock := &cobra.Command{
		Use: "unlock NAME", Short: "Lets a user sign in again after too many wrong passwords",
		Long: `Forgets the wrong passwords for a user's account, from all addresses: the next sign-in is
tried at once. The password stays as it is, and nobody is signed out.`,
		Example: "  $ caddy codehub user unlock ann",
		RunE: withDatabase(1, func(ctx context.Context, d database, name string) error {
			if err := d.Auth.UnlockByName(ctx, name); err != nil {
				return err
			}
			d.Say("%s can try to sign in at once.", name)
			return nil
		}),
	}
	limits := &cobra.Command{
		Use: "limits NAME", Short: "Changes a user's own limits",
		Long: `Changes how many workspaces of a user may run at the same time, and how many the user may
have. 0 makes the limits of all users hold again. A lower limit stops nothing that runs.`,
		Example: `  $ caddy codehub user limits ann --running 5
  $ caddy codehub user limits ann --running 0 --workspaces 0`,
	}
	running := limits.Flags().Int("running", 0, "how many may run at the same time; 0 is the limit of all users")
	workspaces := limits.Flags().Int("workspaces", 0, "how many the user may have; 0 is the limit of all users")
	limits.RunE = withDatabase(1, func(ctx context.Context, d database, name string) error {
		var change auth.AccountChange
		if limits.Flags().Changed("running") {
			change.MaxRunning = running
		}
		if limits.Flags().Changed("workspaces") {
			change.MaxWorkspaces = workspaces
		}
		return changeLimits(ctx, d, name, change)
	})
	Group(cmd, add, passwd, list, signOut, disable, enable, unlock, limits)
	return cmd
}

// addUser adds a user, whose password it reads.
func addUser(ctx context.Context, d database, name string, admin bool) error {
	// This comes before the command asks for the password, because the database may not answer.
	if err := d.Store.Migrate(ctx); err != nil {
		return err
	}
	role := auth.RoleUser
	if admin {
		role = auth.RoleAdmin
	}
	password, err := readPassword(d.Cmd)
	if err != nil {
		return err
	}
	u, err := d.Auth.AddUser(ctx, name, password, role)
	if err != nil {
		return err
	}
	d.Say("Added %s (%s).", u.Username, u.Role)
	return nil
}

func changePassword(ctx context.Context, d database, name string) error {
	password, err := readPassword(d.Cmd)
	if err != nil {
		return err
	}
	if err := d.Auth.SetPassword(ctx, name, password); err != nil {
		return err
	}
	d.Say("%s has the new password, and is signed out everywhere.", name)
	return nil
}

// setDisabled disables or enables a user, and says what that means.
func setDisabled(disabled bool, done string) func(ctx context.Context, d database, name string) error {
	return func(ctx context.Context, d database, name string) error {
		if err := d.Auth.SetDisabled(ctx, name, disabled); err != nil {
			return err
		}
		d.Say(done, name)
		return nil
	}
}

// signOutUsers ends the sign-ins and access tokens of one user, or of all users.
func signOutUsers(ctx context.Context, d database, name string, all, yes bool) error {
	if !all {
		if err := d.Auth.SignOutByName(ctx, name); err != nil {
			return err
		}
		d.Say("%s is signed out everywhere.", name)
		return nil
	}
	users, err := d.Auth.AllAccounts(ctx)
	if err != nil {
		return err
	}
	if err := Confirm(d.Cmd, yes, fmt.Sprintf("This ends all sign-ins and access tokens of %s.",
		Count(len(users), "user"))); err != nil {
		return err
	}
	for _, u := range users {
		if err := d.Auth.SignOut(ctx, u.ID); err != nil {
			return fmt.Errorf("signing %s out: %w", u.Username, err)
		}
	}
	d.Say("%s: signed out everywhere.", Count(len(users), "user"))
	return nil
}

// changeLimits changes a user's own limits.
func changeLimits(ctx context.Context, d database, name string, change auth.AccountChange) error {
	if change == (auth.AccountChange{}) {
		return errors.New("write --running, --workspaces or both")
	}
	account, err := d.Auth.SetLimits(ctx, name, change)
	if err != nil {
		return err
	}
	limit := func(n int) string {
		if n == 0 {
			return "as many as all users"
		}
		return fmt.Sprint(n)
	}
	d.Say("%s may run %s at the same time, and have %s.", account.Username, limit(account.MaxRunning), limit(account.MaxWorkspaces))
	return nil
}

// listUsers prints all users.
func listUsers(ctx context.Context, d database, asJSON bool) error {
	accounts, err := d.Auth.AllAccounts(ctx)
	if err != nil {
		return err
	}
	if asJSON {
		return listUsersJSON(d, accounts)
	}
	w := tabwriter.NewWriter(d.Cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	// The name comes last: it has any length, and some letters are two columns wide.
	fmt.Fprintln(w, "ROLE\tSIGN-IN\tADDED\tNAME")
	for _, a := range accounts {
		signIn := "yes"
		if a.Disabled {
			signIn = "disabled"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", a.Role, signIn, a.CreatedAt.Local().Format(time.DateTime), a.Username)
	}
	return w.Flush()
}

// listUsersJSON prints users with the API's field names.
func listUsersJSON(d database, accounts []auth.Account) error {
	type user struct {
		ID        string    `json:"id"`
		Username  string    `json:"username"`
		Role      string    `json:"role"`
		Disabled  bool      `json:"disabled"`
		CreatedAt time.Time `json:"created_at"`
		Running   *int      `json:"max_running"`
		Own       *int      `json:"max_workspaces"`
	}
	users := make([]user, len(accounts))
	for i, a := range accounts {
		own := v1.AccountOf(a).Limits
		users[i] = user{a.ID, a.Username, a.Role, a.Disabled, a.CreatedAt.UTC(), own.MaxRunning, own.MaxWorkspaces}
	}
	return PrintJSON(d.Cmd.OutOrStdout(), users)
}
