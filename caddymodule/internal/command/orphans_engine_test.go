package command_test

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/workspace"
)

const unknownID = "6f1c0d3e-4a2b-4c8d-9e0f-1a2b3c4d5e6f"

// The real command on a real engine, where every object is too young to be an orphan.
func TestCommandOrphansOnARealEngine(t *testing.T) {
	in := commandtest.NewInstallation(t)
	in.Volume(in.Workspace("one", ""))
	in.Run("", "orphans").Want(t, 0, "Everything that is older than 15m belongs to a workspace.")
	in.Run("", "orphans", "--older-than", "0s").Want(t, 0, "Everything that is older than 0s belongs to a workspace.")
	in.Volume(workspace.ID(unknownID))
	in.Run("", "orphans", "--older-than", "0s").Want(t, 0, "ws-"+unknownID+"-home", "no workspace has its id")
	if o := in.Run("no\n", "orphans", "--older-than", "0s", "--remove"); o.Code != 1 || !strings.Contains(o.Stderr, "younger than 15m may be in the making") {
		t.Errorf("got %+v", o)
	}
	if o := in.Run("", "orphans", "--older-than", "0s", "--remove", "--yes"); o.Code != 0 || !strings.Contains(o.Stdout, "1 removed, 0 not.") {
		t.Errorf("got %+v", o)
	}
	if o := in.Run("", "orphans", "--json", "--remove"); o.Code != 0 || strings.TrimSpace(o.Stdout) != "[]" {
		t.Errorf("got %+v", o)
	}
}
