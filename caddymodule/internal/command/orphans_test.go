package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/orphan"
	"github.com/codehub/gateway/coordinator/workspace"
)

const exampleID = "6f1c0d3e-4a2b-4c8d-9e0f-1a2b3c4d5e6f"

// leftovers stands for an engine with old objects, and for a database without workspaces. All objects of a real engine
// would be too young to be orphans. Package orphan has the tests with real engines.
type leftovers struct {
	objects []backend.Object
	inUse   string
	removed []string
}

func (l *leftovers) Objects(context.Context) ([]backend.Object, error) { return l.objects, nil }

func (l *leftovers) Remove(_ context.Context, o backend.Object) error {
	if o.Name == l.inUse {
		return backend.ErrVolumeInUse
	}
	l.removed = append(l.removed, o.Name)
	return nil
}

func (*leftovers) Workspaces(context.Context, []workspace.ID) ([]workspace.Workspace, error) {
	return nil, nil
}

func (*leftovers) Backend(context.Context) error { return nil }

func (l *leftovers) run(t *testing.T, answer string, o orphans) (stdout, stderr string, err error) {
	t.Helper()
	var out, errOut bytes.Buffer
	cmd := new(cobra.Command)
	cmd.SetIn(strings.NewReader(answer))
	cmd.SetOut(&out)
	cmd.SetErr(&errOut)
	err = o.run(t.Context(), cmd, orphan.New(l, l, l))
	return out.String(), errOut.String(), err
}

func newLeftovers() *leftovers {
	old := time.Now().Add(-time.Hour)
	return &leftovers{objects: []backend.Object{
		{Kind: backend.ObjectVolume, Name: "ws-1-home", Workspace: exampleID, Created: old, UID: "v1"},
		{Kind: backend.ObjectContainer, Name: "ws-1", Workspace: exampleID, Created: old, UID: "c1"},
		{Kind: backend.ObjectContainer, Name: "young", Workspace: exampleID, Created: time.Now(), UID: "c2"},
	}}
}

func TestCommandOrphansChangesNothingUnlessTold(t *testing.T) {
	l := newLeftovers()
	out, _, err := l.run(t, "", orphans{olderThan: orphan.MinAge})
	if err != nil || !strings.Contains(out, "ws-1-home") || strings.Contains(out, "young") || !strings.Contains(out, string(orphan.NoWorkspace)) {
		t.Errorf("%v: %s", err, out)
	}
	_, asked, err := l.run(t, "no\n", orphans{olderThan: orphan.MinAge, remove: true})
	if err == nil || !strings.Contains(asked, "This removes these 2. Files on volumes among them are lost for good.") {
		t.Errorf("%v: %s", err, asked)
	}
	if len(l.removed) != 0 {
		t.Errorf("removed without a yes: %v", l.removed)
	}
	out, _, err = (&leftovers{}).run(t, "", orphans{olderThan: orphan.MinAge, remove: true})
	if err != nil || out != "Everything that is older than 15m belongs to a workspace.\n" {
		t.Errorf("%v: %s", err, out)
	}
}

func TestCommandOrphansRemoves(t *testing.T) {
	l := newLeftovers()
	out, _, err := l.run(t, "yes\n", orphans{olderThan: orphan.MinAge, remove: true})
	if err != nil || !strings.HasSuffix(out, "2 removed, 0 not.\n") || strings.Join(l.removed, " ") != "ws-1 ws-1-home" {
		t.Errorf("%v: %v: %s", err, l.removed, out)
	}

	l = newLeftovers()
	l.inUse = "ws-1-home"
	out, _, err = l.run(t, "", orphans{olderThan: orphan.MinAge, remove: true, yes: true})
	if err == nil || !strings.Contains(out, "volume ws-1-home: ") || !strings.HasSuffix(out, "1 removed, 1 not.\n") {
		t.Errorf("%v: %s", err, out)
	}
	out, _, err = l.run(t, "", orphans{olderThan: orphan.MinAge, remove: true, yes: true, json: true})
	var found []struct {
		Kind, Name, Reason, Error string
		Workspace                 string `json:"workspace_id"`
		Removed                   *bool
	}
	if jsonErr := errors.Join(json.Unmarshal([]byte(out), &found)); jsonErr != nil || err == nil || len(found) != 2 {
		t.Fatalf("%v, %v: %s", err, jsonErr, out)
	}
	if c, v := found[0], found[1]; !*c.Removed || c.Error != "" || c.Workspace != exampleID || *v.Removed || v.Error == "" || v.Kind != "volume" {
		t.Errorf("got %s", out)
	}
}
