package e2e

import (
	"bytes"
	"net/http"
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestDamagedArchive: a restore that fails leaves an empty volume, which is never taken
// for the workspace's home (SPEC 12.1). Once the archive is repaired, the workspace can
// be recovered with its files; deleting the workspace removes the volume.
func TestDamagedArchive(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	repaired, deleted := me.create(t, "repaired"), me.create(t, "deleted")
	base := me.enter(t, repaired.ID)
	if out := me.run(t, base, "echo kept > file && cat file"); out != "kept" {
		t.Fatalf("the terminal printed %q", out)
	}
	for _, w := range []*workspace{&repaired, &deleted} {
		me.setDesiredState(t, w.ID, "ARCHIVED")
	}
	intact := map[string][]byte{}
	for _, w := range []*workspace{&repaired, &deleted} {
		*w = me.awaitPhase(t, w.ID, "ARCHIVED")
		key := "archives/" + w.ArchiveKey
		intact[key] = in.object(t, key)
		damaged := bytes.Clone(intact[key])
		damaged[len(damaged)/2] ^= 1
		in.putObject(t, key, damaged)
		me.setDesiredState(t, w.ID, "RUNNING")
	}
	for _, w := range []workspace{repaired, deleted} {
		if w = me.awaitPhase(t, w.ID, "ERROR"); w.ErrorReason != "ArchiveCorrupted" {
			t.Fatalf("a damaged archive: %+v", w)
		}
	}

	me.call(t, http.MethodDelete, "/api/v1/workspaces/"+deleted.ID, nil, http.StatusAccepted, nil)
	key := "archives/" + repaired.ArchiveKey
	in.putObject(t, key, intact[key])
	me.call(t, http.MethodPost, "/api/v1/workspaces/"+repaired.ID+"/recover", nil, http.StatusOK, nil)
	wait.For(t, "the repaired one answers", func() error { return me.showsTerminal(t, base) })
	if out := me.run(t, base, "cat file"); out != "kept" {
		t.Errorf("after the repair the file holds %q", out)
	}
	wait.For(t, "container and volume of the deleted one are gone", func() error { return in.leftovers(t, deleted.ID) })
}
