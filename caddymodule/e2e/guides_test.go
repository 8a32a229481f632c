package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
)

// guideCommand is a line of a guide, without its comment, and its exit code.
type guideCommand struct {
	line string
	code int
}

// guideCommands are the commands that the guides tell an administrator to run on the installation's own servers. They
// are in a sensible order, each with its exit code on a healthy installation.
var guideCommands = []guideCommand{
	{`caddy codehub user add bob`, 0},
	{`./caddy codehub user add bob`, 1}, // he is there
	{`caddy codehub user add ann --admin`, 0},
	{`caddy codehub doctor --config /etc/caddy/Caddyfile`, 0},
	{`caddy codehub doctor --config /etc/codehub/Caddyfile`, 0},
	{`./caddy codehub audit --user ann --since 24h`, 0},
	{`caddy codehub workspace list --failed --config /etc/caddy/Caddyfile`, 0},
	{`caddy codehub workspace explain ID --config /etc/caddy/Caddyfile`, 0},
	// A workspace that is not in ERROR needs no recovery and offers no choice. The command's own tests,
	// TestCommandRecover…, cover errors.
	{`caddy codehub workspace recover ID`, 0},
	{`caddy codehub workspace recover ID --config /etc/caddy/Caddyfile`, 0},
	{`caddy codehub workspace recover ID --keep-volume`, 1},
	{`caddy codehub workspace recover ID --empty`, 1},
	{`caddy codehub workspace recover ID --from-archive KEY`, 1},
	{`caddy codehub workspace recover ID --from-archive KEY --replace-volume`, 1},
	{`caddy codehub workspace recover --reason DataLost --all`, 0},
	// These commands fail because the engine and the bucket that answer are the recorded ones.
	{`caddy codehub accept backend`, 1},
	{`caddy codehub accept backend --config /etc/caddy/Caddyfile`, 1},
	{`caddy codehub accept bucket`, 1},
	{`caddy codehub gc --dry-run`, 0},
	{`caddy codehub gc --unknown`, 0},
	{`caddy codehub gc --force`, 0},
	{`caddy codehub verify --config /etc/caddy/Caddyfile`, 0},
	{`caddy codehub workspace adopt ID --owner ann --config /etc/caddy/Caddyfile`, 1}, // the database has it
	{`caddy codehub orphans`, 0},
	{`caddy codehub orphans --remove`, 0},
	{`caddy codehub workspace delete --now ID`, 0},
	{`caddy codehub workspace list --deleted`, 0},
	{`caddy codehub workspace undelete ID`, 0},
	{`caddy codehub egress remove`, 0},
	{`caddy codehub migrate`, 0},
	{`caddy codehub version`, 0},
	{`caddy codehub user sign-out --all --yes`, 0},
	{`pg_dump --format=custom --file=codehub.dump "$DATABASE_URL"`, 0},
	{`pg_restore --clean --if-exists --no-owner --dbname="$DATABASE_URL" codehub.dump`, 0},
}

// runElsewhere are the guides whose commands need a token or a cluster. Each is mapped to the test that runs its
// commands.
var runElsewhere = map[string]string{
	"api.md":        "TestWhatTheDocumentOfTheAPIShows",
	"awake.md":      "TestWorkspacesThroughAServer of caddymodule/internal/command/workspaces",
	"kubernetes.md": "TestChart of caddymodule/deploy, on a cluster",
	"moving.md":     "TestMovingAHome of caddymodule/docs",
}

// TestTheCommandsOfTheGuides runs them word for word, except for placeholders.
func TestTheCommandsOfTheGuides(t *testing.T) {
	if devenv.OnKubernetes() {
		t.Skip("the firewall of an engine is among them")
	}
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	id := me.create(t, "thesis").ID
	me.awaitPhase(t, id, "RUNNING")
	me.setDesiredState(t, id, "ARCHIVED")
	me.awaitPhase(t, id, "ARCHIVED")
	keys := in.objects(t, id)
	config, err := filepath.Abs(in.config)
	if err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer(" ID", " "+id, " KEY", " "+keys[0], "/etc/caddy/Caddyfile", config+" --adapter caddyfile",
		"/etc/codehub/Caddyfile", config+" --adapter caddyfile")
	folder := t.TempDir()
	shown := guideLines(t)
	restored := devenv.PostgreSQL(t)
	for _, c := range guideCommands {
		if !slices.Contains(shown, c.line) {
			t.Errorf("no guide shows %s", c.line)
		}
		line := names.Replace(c.line)
		takesNoCaddyfile := strings.HasSuffix(line, " version") || strings.Contains(line, " user ") || strings.HasPrefix(line, "pg_") || strings.HasSuffix(line, " migrate") ||
			strings.Contains(line, " audit ")
		if !takesNoCaddyfile && !strings.Contains(line, "--config") {
			line += " --adapter caddyfile --config " + config
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.TrimPrefix(line, "./"))
		cmd.Dir, cmd.Env = folder, append(in.env, "PATH="+filepath.Dir(caddyProgram(t))+":"+os.Getenv("PATH"))
		if strings.HasPrefix(line, "pg_restore") {
			cmd.Env = append(cmd.Env, "DATABASE_URL="+restored)
		}
		cmd.Stdin = strings.NewReader("correct horse battery\n")
		if !strings.Contains(line, " user ") {
			cmd.Stdin = strings.NewReader("yes\n")
		}
		out, err := cmd.CombinedOutput()
		var exit *exec.ExitError
		if err != nil && !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%s ends with %d, not %d:\n%s", c.line, code, c.code, out)
		}
	}
	for _, line := range shown {
		if !slices.ContainsFunc(guideCommands, func(c guideCommand) bool { return c.line == line }) {
			t.Errorf("a guide shows %s, which nothing runs", line)
		}
	}

	// The steps of the restore drill come next: the restored database contains the workspace, and matches the bucket.
	in.stop(t)
	for args, want := range map[string]string{
		"workspace explain " + id: "Its files are in an archive", "gc --dry-run": "protected",
	} {
		args = "codehub " + args + " --adapter caddyfile --config " + config
		cmd := exec.CommandContext(t.Context(), caddyProgram(t), strings.Fields(args)...)
		cmd.Env = append(in.env, "DATABASE_URL="+restored)
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
			t.Errorf("on the restored database, %s: %v\n%s", args, err, out)
		}
	}
}

// guideLines returns the commands of the English guides for administrators, without comments.
func guideLines(t *testing.T) (lines []string) {
	t.Helper()
	files, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		if strings.HasSuffix(name, ".ko.md") || runElsewhere[name] != "" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1)
		for _, block := range blocks {
			if strings.Contains(block[1], "codehub login ") {
				continue // TestWhatTheDocumentOfTheAPIShows runs it
			}
			for line := range strings.Lines(block[1]) {
				line, _, _ = strings.Cut(line, " #")
				if line = strings.TrimSpace(line); !strings.Contains(line, " --follow ") && strings.Contains(line, "caddy codehub ") ||
					strings.HasPrefix(line, "pg_") { // what follows does not end
					lines = append(lines, line)
				}
			}
		}
	}
	return lines
}
