package command_test

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
)

func TestCommandAcceptsWhatWasFound(t *testing.T) {
	in := commandtest.NewInstallation(t)
	in.Run("", "accept", "backend").Want(t, 1, "nothing is recorded about the container engine or cluster yet")
	in.Exec("INSERT INTO system_identity (resource, identity) VALUES ('backend', 'engine-1'), ('bucket', 'marker-1')")
	in.Run("", "accept", "backend").Want(t, 1, "there is nothing to accept: the container engine or cluster is the expected one, engine-1")

	in.Exec("UPDATE system_identity SET found = 'engine-2', found_at = now() - interval '90 s' WHERE resource = 'backend'")
	for _, answer := range []string{"", "no\n"} {
		o := in.Run(answer, "accept", "backend")
		if o.Code != 1 || !strings.Contains(o.Stderr, "nothing was changed") {
			t.Errorf("the answer %q: got %+v", answer, o)
		}
		for _, part := range []string{"expected: engine-1", "found:    engine-2 (1m30s ago)"} {
			if !strings.Contains(o.Stdout, part) {
				t.Errorf("it does not say %q: %s", part, o.Stdout)
			}
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
