package command_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// line is what `doctor --json` says of a check.
type line struct{ Check, Level, Text, Remedy string }

// TestDoctorWithoutAnEngine: what answers is ok, what does not is a problem with a remedy,
// and what depends on it is not looked at.
func TestDoctorWithoutAnEngine(t *testing.T) {
	in := newGCInstallation(t)
	in.write(strings.Replace(in.text, "codehub {", "codehub {\n\t\tdocker {\n\t\t\thost unix:///nonexistent/docker.sock\n\t\t}", 1))
	doctor := func(args ...string) (outcome, map[string]line) {
		t.Helper()
		o := runCommand(t, nil, append([]string{"doctor", "--config", in.caddyfile, "--json"}, args...)...)
		var lines []line
		if err := json.Unmarshal([]byte(o.stdout), &lines); err != nil {
			t.Fatalf("%v: %s %s", err, o.stdout, o.stderr)
		}
		found := make(map[string]line)
		for _, l := range lines {
			found[l.Check] = l
			if (l.Level == "ok") != (l.Remedy == "") || l.Text == "" {
				t.Errorf("%+v", l)
			}
		}
		return o, found
	}
	o, found := doctor()
	for check, level := range map[string]string{
		"database": "ok", "redis": "ok", "object store": "ok", "engine": "problem",
		"images": "warning", "network": "warning", "egress": "warning", "isolation": "warning", "disk": "warning", "home": "warning", "hosts": "ok",
	} {
		if found[check].Level != level {
			t.Errorf("%s: %+v, want %s", check, found[check], level)
		}
	}
	if o.code != 1 || !strings.Contains(o.stderr, "1 problem found") || !strings.Contains(found["egress"].Remedy, "engine") {
		t.Errorf("exit code %d, %s, %+v", o.code, o.stderr, found["egress"])
	}
	plain := runCommand(t, nil, "doctor", "--config", in.caddyfile)
	for _, part := range []string{"problem  engine", "→ check the setting docker host", "ok       database"} {
		if !strings.Contains(plain.stdout, part) {
			t.Errorf("printed %q without %q", plain.stdout, part)
		}
	}
	if plain.code != 1 {
		t.Errorf("exit code %d", plain.code)
	}

	// Only a bucket that is this installation's is written to, so only that one is tried.
	marker := `{"installation": "somebody", "database": "elsewhere", "generation": 1}`
	in.putObject("archives/codehub.json", marker)
	if _, found = doctor(); found["object store"].Level != "problem" || !strings.Contains(found["object store"].Text, "somebody") {
		t.Errorf("another installation's: %+v", found["object store"])
	}
	t.Setenv("GC_TEST_BUCKET", in.objects.Bucket+"-missing")
	if _, found = doctor(); found["object store"].Level != "warning" || !strings.Contains(found["object store"].Remedy, "it creates the bucket") {
		t.Errorf("no bucket yet: %+v", found["object store"])
	}

	t.Setenv("GC_TEST_REDIS", "redis://:hidden@127.0.0.1:1/0")
	t.Setenv("GC_TEST_DATABASE", "postgres://ann:hidden@127.0.0.1:1/x")
	o, found = doctor()
	if found["redis"].Level != "problem" || found["database"].Level != "problem" || strings.Contains(o.stdout+o.stderr, "hidden") {
		t.Errorf("%s %s", o.stdout, o.stderr)
	}
}
