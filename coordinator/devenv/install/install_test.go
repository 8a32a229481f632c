package install

import (
	"errors"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestPlan(t *testing.T) {
	missing := []Need{PostgreSQL, Redis}
	for _, c := range []struct {
		name  string
		host  host
		first string // of the command; empty: it must be done by hand
		hint  string
	}{
		{"root", host{apt: true, root: true}, "sh", ""},
		{"root needs no sudo", host{apt: true, root: true, sudo: true}, "sh", ""},
		{"sudo", host{apt: true, sudo: true}, "sudo", ""},
		{"a user who may not", host{apt: true}, "", "apt-get install postgresql redis-server"},
		{"another system", host{root: true}, "", "PostgreSQL, Redis"},
	} {
		t.Run(c.name, func(t *testing.T) {
			command, err := plan(missing, c.host)
			if c.first == "" {
				var manual *ManualError
				if !errors.As(err, &manual) || !strings.Contains(err.Error(), c.hint) {
					t.Fatalf("got %q, %v; want advice with %q", command, err, c.hint)
				}
				return
			}
			if err != nil || command[0] != c.first || !slices.Equal(command[len(command)-2:], []string{"postgresql", "redis-server"}) {
				t.Fatalf("got %q, %v", command, err)
			}
		})
	}
}

func TestNothingMissingRunsNothing(t *testing.T) {
	there := Need{"this", "no-such-package", func() bool { return false }}
	var out strings.Builder
	if err := Ensure(t.Context(), &out, there); err != nil || out.Len() > 0 {
		t.Fatalf("%v, %q", err, out.String())
	}
}

// The script is run by whatever sh is.
func TestScriptIsValid(t *testing.T) {
	cmd := exec.Command("sh", "-n")
	cmd.Stdin = strings.NewReader(script)
	cmd.Env = os.Environ()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}
