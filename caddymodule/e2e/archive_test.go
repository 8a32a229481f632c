package e2e

import (
	"bytes"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestDamagedArchive: a failed restore leaves an empty volume, which never counts as the workspace's home (SPEC
// 12.1). Once the archive is repaired, the workspace can be recovered with its files. Deleting the workspace removes
// the volume.
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

	me.seesTheInstallation(t, repaired)
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

// seesTheInstallation reads an administrator's views of two workspaces with damaged archives. Neither a dry run of the
// garbage collection nor a real one lists or deletes archives that the workspaces may need.
func (u *user) seesTheInstallation(t *testing.T, w workspace) {
	t.Helper()
	var o struct {
		Errors   map[string]int `json:"errors"`
		Archives struct {
			Current int `json:"current"`
		} `json:"archives"`
		Disk    *struct{} `json:"disk"`
		Leaders []any     `json:"leaders"`
	}
	u.call(t, http.MethodGet, "/api/v1/admin/overview", nil, http.StatusOK, &o)
	if o.Errors["ArchiveCorrupted"] != 2 || o.Archives.Current != 2 || len(o.Leaders) != 1 {
		t.Errorf("the overview is %+v", o)
	}
	var events struct {
		Items []struct {
			Kind string `json:"kind"`
			ID   string `json:"workspace_id"`
		} `json:"items"`
	}
	u.call(t, http.MethodGet, "/api/v1/admin/history", nil, http.StatusOK, &events)
	if !slices.ContainsFunc(events.Items, func(e struct {
		Kind string `json:"kind"`
		ID   string `json:"workspace_id"`
	}) bool {
		return e.Kind == "error" && e.ID == w.ID
	}) {
		t.Errorf("the history has no error of %s: %+v", w.ID, events)
	}
	for _, dry := range []bool{true, false} {
		var c struct {
			Report struct{ Archives, Due, Deleted int } `json:"report"`
		}
		u.call(t, http.MethodPost, "/api/v1/admin/gc", map[string]bool{"dry_run": dry}, http.StatusOK, &c)
		if c.Report.Archives != 2 || c.Report.Due != 0 || c.Report.Deleted != 0 {
			t.Errorf("a collection, dry %v: %+v", dry, c)
		}
	}
	u.readsArchivesBack(t)
}

// readsArchivesBack asks for both archives to be read back now, because the scrub by itself would not read them for at
// least a week. A single finding is only a suspicion, so the archives stay in the queue.
func (u *user) readsArchivesBack(t *testing.T) {
	t.Helper()
	type report struct {
		Archives   int
		OldestRead time.Time `json:"oldest_read_at"`
		ToRead     int       `json:"to_read"`
	}
	scrub := func(dry bool, status int) (r report) {
		t.Helper()
		u.call(t, http.MethodPost, "/api/v1/admin/scrub", map[string]bool{"dry_run": dry}, status, &r)
		return r
	}
	before := scrub(true, http.StatusOK)
	if before.Archives != 2 || before.ToRead != 0 {
		t.Errorf("before: %+v", before)
	}
	if asked := scrub(false, http.StatusAccepted); asked.ToRead != 2 {
		t.Errorf("when asked: %+v", asked)
	}
	wait.Until(t, "both archives are read", func() bool {
		now := scrub(true, http.StatusOK)
		return now.OldestRead.After(before.OldestRead) && now.ToRead == 2
	})
}
