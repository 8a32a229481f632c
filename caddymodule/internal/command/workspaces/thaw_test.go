package workspaces_test

import (
	"fmt"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestCommandThaws: one or all dozing workspaces resume without a leader. Other workspaces stay unchanged.
func TestCommandThaws(t *testing.T) {
	in := commandtest.NewInstallation(t)
	dozing := func(name string) workspace.ID {
		id := in.Workspace(name, "")
		in.Exec(`UPDATE workspaces SET phase = 'RUNNING', desired_state = 'RUNNING' WHERE id = $1`, string(id))
		in.Exec(`UPDATE workspaces SET doze_at = now(), conditions = '{"infra.dozing": {"status": "True"}}' WHERE id = $1`, string(id))
		return id
	}
	dozes := func() string {
		return in.Value(`SELECT COALESCE(string_agg(name, ' ' ORDER BY name), 'none') FROM workspaces WHERE doze_at IS NOT NULL`)
	}
	runs := func() string {
		return in.Value(`SELECT string_agg(name, ' ' ORDER BY name) FROM workspaces WHERE desired_state = 'RUNNING'`)
	}
	byID, _, _ := dozing("by id"), dozing("by name"), dozing("other")
	dozing("two")
	dozing("two")
	asleep := in.Workspace("asleep", "")

	in.Run("", "workspace", "thaw", string(byID)).Want(t, 0, "by id is thawed.")
	in.Run("", "workspace", "thaw", "by name").Want(t, 0, "by name is thawed.")
	in.Run("", "workspace", "thaw", "other").Want(t, 1, "may run at the same time")
	if got := dozes(); got != "other two two" {
		t.Errorf("these doze: %s", got)
	}
	in.Run("", "workspace", "thaw", "two").Want(t, 1, `2 frozen workspaces are called "two": write the id`)
	for _, named := range []string{"nobody", string(asleep)} {
		in.Run("", "workspace", "thaw", named).Want(t, 1, fmt.Sprintf("no frozen workspace is called %q", named))
	}
	for _, args := range [][]string{{}, {"a", "b"}, {"--all", "a"}} {
		if o := in.Run("", append([]string{"workspace", "thaw"}, args...)...); o.Code != 2 {
			t.Errorf("%q: %+v", args, o)
		}
	}
	in.Run("", "workspace", "thaw", "--all").Want(t, 0, "3 workspaces dozed; none does any more.")
	if got := dozes(); got != "none" {
		t.Errorf("these doze: %s", got)
	}
	if got := runs(); got != "by id by name" {
		t.Errorf("at the limit these run: %s", got)
	}
	dozing("last")
	in.Exec(`UPDATE workspaces SET desired_state = 'STANDBY', phase = 'STANDBY' WHERE name = 'by id'`)
	in.Run("", "workspace", "thaw", "--all").Want(t, 0, "1 workspace dozed; none does any more.")
	if got := runs(); got != "by name last" {
		t.Errorf("with a free place these run: %s", got)
	}
	in.Run("", "workspace", "thaw", "--all").Want(t, 0, "0 workspaces dozed; none does any more.")
}
