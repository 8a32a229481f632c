package e2e

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestWhatTheDocumentOfTheAPIShows runs, word for word, the program and the commands of docs/api.md, and the commands
// of docs/cli.md that use a token.
func TestWhatTheDocumentOfTheAPIShows(t *testing.T) {
	t.Parallel()
	in := install(t)
	ann := in.addUser(t, "ann")
	var made struct{ Token string }
	ann.call(t, http.MethodPost, "/api/v1/tokens", map[string]any{"name": "x", "scopes": []string{"write", "workspace"}}, http.StatusCreated, &made)
	blocks := func(name, language string) (all []string) {
		document, err := os.ReadFile("../docs/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range regexp.MustCompile("(?s)```"+language+"\n(.*?)```").FindAllStringSubmatch(string(document), -1) {
			all = append(all, found[1])
		}
		return all
	}
	home := t.TempDir()
	run := func(program, text string, more ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), program, "-")
		cmd.Stdin, cmd.Dir = strings.NewReader(text), home
		cmd.Env = append(os.Environ(), "HOME="+home, "XDG_CONFIG_HOME="+home, "CODEHUB_TOKEN="+made.Token, "CODEHUB_URL="+in.url(""),
			"PATH="+filepath.Dir(caddyProgram(t))+":"+os.Getenv("PATH"))
		cmd.Env = append(cmd.Env, more...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v\n%s\n%s\n%s", err, text, out, stderr.String())
		}
		return string(out)
	}

	programs := blocks("api.md", "python")
	if len(programs) != 1 || strings.Count(programs[0], "\n") > 40 {
		t.Fatalf("the document has %d programs", len(programs))
	}
	if out := run("python3", programs[0]); out != "42\n" {
		t.Errorf("the program printed %q", out)
	}
	var list struct{ Items []workspace }
	ann.call(t, http.MethodGet, "/api/v1/workspaces", nil, http.StatusOK, &list)
	if len(list.Items) != 1 || list.Items[0].Phase != "ARCHIVED" {
		t.Fatalf("the program left %+v", list.Items)
	}

	requests, commands := blocks("api.md", "sh"), blocks("cli.md", "sh")
	commands = slices.DeleteFunc(commands, func(block string) bool { return !strings.Contains(block, " login ") })
	if len(requests) != 3 || len(commands) != 1 { // the first one makes a token, with a password
		t.Fatalf("the documents have %d and %d blocks of commands", len(requests), len(commands))
	}
	id := "WORKSPACE=" + list.Items[0].ID
	if out := run("sh", requests[1], id); !strings.Contains(out, list.Items[0].ID) {
		t.Errorf("the list is %s", out)
	}
	if out := run("sh", requests[2], id); out != "ok\n" { // which wakes it
		t.Errorf("its application answers %q", out)
	}
	for _, a := range addresses { // the application never sees it
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.base(in, list.Items[0].ID)+"echo", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+made.Token)
		res, err := newHTTPClient(nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if seen := text(t, res); res.StatusCode != http.StatusOK || strings.Contains(seen, "Authorization") {
			t.Errorf("reached by %s: %s\n%s", a.name, res.Status, seen)
		}
	}
	ann.setDesiredState(t, list.Items[0].ID, "STANDBY")
	ann.awaitPhase(t, list.Items[0].ID, "STANDBY")
	if err := os.MkdirAll(filepath.Join(home, "src", "deep"), 0o755); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(commands[0]) {
		if out := run("sh", line); strings.Contains(line, "; ls") && out != "greeting\n" || strings.Contains(line, " open ") && !strings.HasPrefix(out, "http://ws-") {
			t.Errorf("%s: %q", line, out)
		}
		if strings.HasPrefix(line, "tar ") {
			if out := run("sh", "caddy codehub workspace exec thesis ls src"); out != "deep\n" {
				t.Errorf("%s: it brings %q", line, out)
			}
		}
	}
	if got, err := os.ReadFile(filepath.Join(home, "greeting")); string(got) != "hello\n" {
		t.Errorf("the file that was brought back is %q, %v", got, err)
	}
}
