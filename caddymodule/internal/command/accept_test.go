package command_test

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
)

func TestCommandAcceptsWhatWasFound(t *testing.T) {
	in := commandtest.NewInstallation(t)
	in.Run("", "accept", "backend").Want(t, 1, "nothing is recorded about the container engine or cluster yet")
	in.Exec("INSERT INTO system_identity (resource, identity) VALUES ('backend', 'engine-1'), ('bucket', 'marker-1')")
	in.Run("", "accept", "backend").Want(t, 1, "there is nothing to accept: the container engine or cluster is the expected one, engine-1")

	begun := time.Now()
	in.Exec("UPDATE system_identity SET found = 'engine-2', found_at = now() - interval '90 s' WHERE resource = 'backend'")
	found := regexp.MustCompile(`found:    engine-2 \((\w+) ago\)`)
	for _, answer := range []string{"", "no\n"} {
		o := in.Run(answer, "accept", "backend")
		if o.Code != 1 || !strings.Contains(o.Stderr, "nothing was changed") {
			t.Errorf("the answer %q: got %+v", answer, o)
		}
		said := found.FindStringSubmatch(o.Stdout)
		if said == nil || !strings.Contains(o.Stdout, "expected: engine-1") {
			t.Fatalf("it does not say what was found and expected: %s", o.Stdout)
		}
		const rounded = time.Second
		if age, err := time.ParseDuration(said[1]); err != nil || age < 90*time.Second || age > 90*time.Second+time.Since(begun)+rounded {
			t.Errorf("it was found %s ago, after 90 s and %v: %v", said[1], time.Since(begun), err)
		}
	}
	if got := in.Value("SELECT COALESCE(accepted, '') FROM system_identity WHERE resource = 'backend'"); got != "" {
		t.Fatalf("%q is accepted", got)
	}
	in.Run("", "accept", "backend", "--yes").Want(t, 0, "Accepted. The process that leads adopts it")
	if got := in.Value("SELECT accepted FROM system_identity WHERE resource = 'backend'"); got != "engine-2" {
		t.Errorf("%q is accepted", got)
	}
	in.Run("", "accept", "backend", "--yes").Want(t, 0, "It is accepted already")
	in.Run("", "accept", "bucket", "--yes").Want(t, 1, "the bucket of the archives is the expected one")
}

func TestCommandAcceptRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for _, c := range []struct{ args, problem string }{
		{"accept", "0 arguments instead of 1: write caddy codehub accept backend|bucket"},
		{"accept database", `there is no "database" to accept: write backend or bucket`},
		{"accept backend --config /nowhere/Caddyfile", "name it with --config"},
	} {
		commandtest.Run(t, nil, strings.Fields(c.args)...).Want(t, 2, "Error: ", c.problem)
	}
}
