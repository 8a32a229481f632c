package command_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Why a command is not in the audit.
const (
	reads  = "it changes nothing"
	here   = "it changes this machine's user only"
	server = "the server's API is in the audit"
)

// TestEveryCommandThatChangesSomethingIsInTheAudit runs the commands that change something on an installation's own
// servers, and checks the entries that each adds to the audit (SPEC 13). The servers are real, and the order is one in
// which every command succeeds. A new command needs a new row.
func TestEveryCommandThatChangesSomethingIsInTheAudit(t *testing.T) {
	in := commandtest.NewInstallation(t)
	w, broken, deleted := in.Workspace("one", ""), in.Workspace("broken", workspace.ReasonRetryExceeded), in.Workspace("gone", "")
	const unknown workspace.ID = "11111111-0000-4000-8000-000000000000"
	in.Archive(unknown)
	key := in.Archive(w)
	in.Exec(`UPDATE workspaces SET archive_key = $2 WHERE id = $1`, string(w), in.Archive(w))
	lost := workspace.ID("22222222-0000-4000-8000-000000000000")
	in.Volume(lost)
	rows := []struct {
		before  string // a statement
		command string // without "caddy codehub", and with its arguments
		want    string // the actions, or why there are none
		answer  string // what is typed
		anyhow  bool   // the work need not succeed: the entry is written before it
	}{
		{command: "user add bob", want: "user.create", answer: "correct horse battery\n"},
		{command: "user passwd bob", want: "user.password", answer: "correct horse battery!\n"},
		{command: "user limits bob --running 1", want: "user.limits"},
		{command: "user disable bob", want: "user.disable"},
		{command: "user enable bob", want: "user.enable"},
		{command: "user sign-out bob", want: "user.sign_out"},
		{
			before:  `INSERT INTO sign_in_failures (key, account, failures) VALUES (sha256('1'), sha256('account\000bob'), 9)`,
			command: "user unlock bob", want: "user.unlock",
		},
		{command: "workspace adopt " + string(unknown) + " --owner ann", want: "workspace.create"},
		{command: "workspace restore " + string(w) + " " + key + " --yes", want: "workspace.restore"},
		{command: "workspace recover " + string(broken), want: "workspace.recover"},
		{command: "workspace delete " + string(deleted) + " --yes", want: "workspace.delete"},
		{command: "workspace undelete " + string(deleted), want: "workspace.undelete"},
		{command: "gc --yes", want: "system.gc"},
		{command: "orphans --older-than 0s --remove --yes", want: "system.orphans"},
		{command: "workspace thaw --all", want: "system.thaw"},
		{command: "egress remove --yes", want: "system.egress", anyhow: true},
		{before: `INSERT INTO system_identity (resource, identity, found, found_at) VALUES ('backend', 'old', 'new', now())
			ON CONFLICT (resource) DO UPDATE SET found = 'new', found_at = now()`,
			command: "accept backend --yes", want: "system.accept"},
		{command: "migrate", want: reads}, // here: TestCommandAudit sees system.migrate
	}
	others := map[string]string{
		"user list": reads, "audit": reads, "report": reads, "version": reads, "health": reads, "doctor": reads, "verify": reads,
		"workspace list": reads, "workspace show": reads, "workspace logs": reads, "workspace stats": reads, "workspace archives": reads,
		"workspace explain": reads, "workspace history": reads, "token list": reads,
		"login": here, "logout": here + ", and ends its token as " + server,
		"workspace create": server, "workspace open": server, "workspace update": server, "workspace rename": server, "workspace start": server, "workspace sleep": server,
		"workspace archive": server, "workspace keep-awake": server, "workspace exec": server, "token create": server, "token revoke": server,
	}
	t.Setenv("CLI_TEST_REDIS", devenv.Redis(t))
	t.Setenv("DATABASE_URL", os.Getenv("CLI_TEST_DATABASE"))
	for _, row := range rows {
		words := strings.Fields(row.command)
		cmd := command(t, words)
		others[path(cmd)] = row.want
		if row.before != "" {
			in.Exec(row.before)
		}
		last := in.Value(`SELECT COALESCE(max(id), 0)::text FROM audit_log`)
		run := in.Run
		if cmd.Flags().Lookup("config") == nil {
			run = func(answer string, args ...string) commandtest.Outcome {
				return commandtest.Run(t, strings.NewReader(answer), args...)
			}
		}
		if o := run(row.answer, words...); o.Code != 0 && !row.anyhow {
			t.Errorf("%s: exit code %d, %s", row.command, o.Code, o.Stderr)
		}
		want := row.want
		if want == reads {
			want = ""
		}
		if got := in.Value(`SELECT COALESCE(string_agg(action, ' ' ORDER BY id), '') FROM audit_log WHERE id > $1::bigint
			AND actor ->> 'kind' = 'operator'`, last); got != want {
			t.Errorf("%s: the audit has %q, want %q", row.command, got, want)
		}
	}
	var leaves func(cmd *cobra.Command) []string
	leaves = func(cmd *cobra.Command) (all []string) {
		if !cmd.HasSubCommands() {
			return []string{path(cmd)}
		}
		for _, sub := range cmd.Commands() {
			if sub.Name() != "help" && sub.Name() != "completion" {
				all = append(all, leaves(sub)...)
			}
		}
		return all
	}
	all := leaves(commandtest.CommandLine())
	for _, name := range all {
		if others[name] == "" {
			t.Errorf("%s is in no table: what does the audit say of it?", name)
		}
	}
	for name := range others {
		if !slices.Contains(all, name) {
			t.Errorf("there is no command %q", name)
		}
	}
}

// path returns a command as typed, without "caddy codehub".
func path(cmd *cobra.Command) string {
	return strings.TrimPrefix(cmd.CommandPath(), "caddy codehub ")
}

// command returns the command that the words run.
func command(t *testing.T, words []string) *cobra.Command {
	t.Helper()
	cmd, _, err := commandtest.CommandLine().Find(append([]string{"codehub"}, words...))
	if err != nil {
		t.Fatal(err)
	}
	return cmd
}

// With the flag --no-audit, the firewall rules can be removed even if the database cannot be reached.
func TestEgressRemoveWithoutADatabase(t *testing.T) {
	in := commandtest.NewInstallation(t)
	t.Setenv("CLI_TEST_DATABASE", "postgres://127.0.0.1:1/gone")
	in.Run("", "egress", "remove", "--yes").Want(t, 1, "the database cannot be reached", "--no-audit")
	if o := in.Run("yes\n", "egress", "remove", "--no-audit"); strings.Contains(o.Stderr, "database") {
		t.Errorf("got %+v", o)
	}
	in.Run("no\n", "egress", "remove", "--no-audit").Want(t, 1, "Without these rules", "nothing was changed")
}
