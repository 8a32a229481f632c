package store

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// term makes a valid fence.
func term(t testing.TB, s *Store) postgres.Fence {
	t.Helper()
	f := postgres.Fence{Lock: "lock-" + uuid.NewString(), Epoch: 7}
	exec(t, s, `INSERT INTO system_locks (lock_name, holder_id, epoch) VALUES ($1, 'a', $2)`, f.Lock, f.Epoch)
	return f
}

func archivesOf(t testing.TB, s *Store, id workspace.ID) map[string]Archive {
	t.Helper()
	found, err := s.Archives(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	out := make(map[string]Archive)
	for _, a := range found {
		out[a.Key] = a
	}
	return out
}

func TestASaveRecordsTheArchiveOfTheRow(t *testing.T) {
	s := open(t)
	f := term(t, s)
	w := add(t, s, addUser(t, s))
	save := func(next workspace.Workspace, a *workspace.ArchiveRecord) {
		t.Helper()
		if saved, err := s.Save(t.Context(), f, w, next, a); !saved || err != nil {
			t.Fatal(saved, err)
		}
		w = read(t, s, w.ID)
	}
	key := w.ID.ArchiveKey(uuid.NewString())
	sum := strings.Repeat("0f", 32)
	next := w
	next.ArchiveKey = key
	save(next, &workspace.ArchiveRecord{Size: 10, Content: 100, Files: 3, SHA256: sum})
	got := archivesOf(t, s, w.ID)[key]
	if got.Size != 10 || got.Content != 100 || got.Files != 3 || got.SHA256 != sum || !got.VerifiedAt.IsZero() || got.CreatedAt.IsZero() || !w.ArchiveVerifiedAt.IsZero() {
		t.Errorf("recorded %+v, the row %+v", got, w.ArchiveVerifiedAt)
	}
	// A restore has read the whole archive. So the archive counts as verified, regardless of earlier findings.
	exec(t, s, `UPDATE archives SET damage = 'x', suspected_at = now()`)
	exec(t, s, `UPDATE workspaces SET archive_damage = 'x', archive_suspected = true`)
	w = read(t, s, w.ID)
	save(w, &workspace.ArchiveRecord{Verified: true}) // the job need not know the size
	got = archivesOf(t, s, w.ID)[key]
	if got.Size != 10 || got.VerifiedAt.IsZero() || got.Damage != "" || !got.SuspectedAt.IsZero() || got.Content != 100 || got.SHA256 != sum || w.ArchiveDamage != "" || w.ArchiveSuspected || w.ArchiveVerifiedAt.IsZero() {
		t.Errorf("after a restore: %+v, the row %q %s", got, w.ArchiveDamage, w.ArchiveVerifiedAt)
	}
	// Another archive becomes the current one: the workspace gets the recorded damage of that archive.
	older := w.ID.ArchiveKey(uuid.NewString())
	if err := s.AddArchives(t.Context(), []Archive{{WorkspaceID: w.ID, Key: older, Size: 5, CreatedAt: time.Unix(1, 0)}}); err != nil {
		t.Fatal(err)
	}
	exec(t, s, `UPDATE archives SET damage = 'torn', suspected_at = now() WHERE key = $1`, older)
	next = w
	next.ArchiveKey = older
	save(next, nil)
	if w.ArchiveDamage != "torn" || !w.ArchiveSuspected || !w.ArchiveVerifiedAt.IsZero() {
		t.Errorf("the older one: %q, %s", w.ArchiveDamage, w.ArchiveVerifiedAt)
	}
	save(w, nil) // and stays while the key does
	if w.ArchiveDamage != "torn" || !w.ArchiveSuspected {
		t.Errorf("saved again: %q", w.ArchiveDamage)
	}
	// A deposed leader writes neither.
	next.ArchiveKey = w.ID.ArchiveKey(uuid.NewString())
	if saved, err := s.Save(t.Context(), postgres.Fence{Lock: f.Lock, Epoch: f.Epoch - 1}, w, next, &workspace.ArchiveRecord{Size: 1}); saved || err != nil {
		t.Fatal(saved, err)
	}
	if n := len(archivesOf(t, s, w.ID)); n != 2 {
		t.Errorf("%d archives are recorded", n)
	}
	if err := s.RemoveArchives(t.Context(), []string{older, w.ID.ArchiveKey(uuid.NewString())}); err != nil {
		t.Fatal(err)
	}
	if _, there := archivesOf(t, s, w.ID)[older]; there {
		t.Error("the row of a deleted archive is still there")
	}
}

func TestWhatTheScrubFindsCountsTheSecondTime(t *testing.T) {
	s := open(t)
	f := term(t, s)
	owner := addUser(t, s)
	w := add(t, s, owner, `archive_key = 'k'`)
	insert := func(key string) Archive {
		exec(t, s, `INSERT INTO archives (workspace_id, key, size, created_at) VALUES ($1, $2, 10, now() - interval '1 day')`, string(w.ID), key)
		return Archive{WorkspaceID: w.ID, Key: key}
	}
	current, old := insert("k"), insert("old")
	check := func(a Archive, c Check) Archive {
		t.Helper()
		if _, err := s.Checked(t.Context(), f, a, c); err != nil {
			t.Fatal(err)
		}
		w = read(t, s, w.ID)
		return archivesOf(t, s, w.ID)[a.Key]
	}
	bad := Check{Damage: "torn", Took: time.Millisecond}
	if a := check(current, bad); a.Damage != "" || a.SuspectedAt.IsZero() || a.CheckedAt.IsZero() || w.ArchiveDamage != "" || !w.ArchiveSuspected {
		t.Errorf("the first time: %+v, the row %q", a, w.ArchiveDamage)
	}
	exec(t, s, `UPDATE archives SET suspected_at = now() - interval '1 hour' WHERE key = 'k'`)
	if a := check(current, Check{Unknown: true}); time.Since(a.SuspectedAt) > time.Minute || a.Damage != "" || !w.ArchiveSuspected {
		t.Errorf("it could not be read: %+v", a) // others are read before it is tried again
	}
	if a := check(current, bad); a.Damage != "torn" || !a.SuspectedAt.IsZero() || w.ArchiveDamage != "torn" || w.ArchiveSuspected {
		t.Errorf("the second time: %+v, the row %q", a, w.ArchiveDamage)
	}
	sum := strings.Repeat("0f", 32)
	if a := check(current, Check{Size: 11, SHA256: sum, Took: time.Millisecond}); a.Damage != "" || a.VerifiedAt.IsZero() || a.Size != 11 || a.SHA256 != sum || w.ArchiveDamage != "" || !w.ArchiveVerifiedAt.Equal(a.VerifiedAt) {
		t.Errorf("whole again: %+v, the row %q", a, w.ArchiveDamage)
	}
	// A restore has read the archive since the scrub began.
	exec(t, s, `UPDATE archives SET verified_at = now() - interval '1 second' WHERE key = 'k'`)
	for range 2 {
		if a := check(current, Check{Damage: "torn", Took: time.Hour}); a.Damage != "" || !a.SuspectedAt.IsZero() {
			t.Errorf("read meanwhile: %+v", a)
		}
	}
	// An archive that is missing, and is not the current one, loses its row.
	gone := Check{Damage: "missing", Missing: true}
	if a := check(old, gone); a.SuspectedAt.IsZero() {
		t.Errorf("gone, the first time: %+v", a)
	}
	if a := check(old, gone); a.Key != "" {
		t.Errorf("gone, the second time: %+v", a)
	}
	exec(t, s, `UPDATE archives SET verified_at = NULL`)
	for range 2 {
		check(current, gone)
	}
	if w.ArchiveDamage != "missing" {
		t.Errorf("the current one is gone: %q", w.ArchiveDamage)
	}
	// A deposed leader writes nothing.
	f.Epoch--
	if a := check(current, Check{}); a.Damage == "" {
		t.Errorf("deposed: %+v", a)
	}
	h, err := s.ArchiveHealth(t.Context())
	if err != nil || h.Current != 1 || h.Damaged != 1 || h.Unverified != 1 || h.Oldest < 23*time.Hour || h.Oldest > 25*time.Hour {
		t.Errorf("health %+v, %v", h, err)
	}
}

func TestTheNextArchiveToRead(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	w, deleted := add(t, s, owner), add(t, s, owner, deletedNow)
	next := func() string {
		t.Helper()
		a, ok, err := s.NextArchive(t.Context(), time.Minute, time.Hour)
		if err != nil || ok != (a.Key != "") {
			t.Fatal(a, ok, err)
		}
		return a.Key
	}
	if ago, size, err := s.LastCheck(t.Context()); ago >= 0 || size != 0 || err != nil || next() != "" {
		t.Errorf("nothing was read: %s, %d, %v", ago, size, err)
	}
	insert := func(id workspace.ID, key, columns, values string) {
		exec(t, s, `INSERT INTO archives (workspace_id, key, size`+columns+`) VALUES ($1, $2, 10`+values+`)`, string(id), key)
	}
	insert(deleted.ID, "deleted", "", "")
	insert(w.ID, "lately", ", checked_at", ", now()")
	if got := next(); got != "" {
		t.Errorf("next is %q, want none", got)
	}
	insert(w.ID, "job", ", verified_at", ", now() - interval '2 hours'")
	insert(w.ID, "long ago", ", verified_at, checked_at", ", now() - interval '9 days', now() - interval '3 hours'")
	insert(w.ID, "never", "", "")
	insert(w.ID, "suspected lately", ", suspected_at", ", now()")
	insert(w.ID, "suspected", ", suspected_at", ", now() - interval '5 minutes'")
	for _, want := range []string{"suspected", "never", "long ago", "job", ""} {
		if got := next(); got != want {
			t.Errorf("next is %q, want %q", got, want)
		}
		exec(t, s, `DELETE FROM archives WHERE key = $1`, want)
	}
	if ago, size, err := s.LastCheck(t.Context()); ago < 0 || ago > time.Minute || size != 10 || err != nil {
		t.Errorf("last check %s ago, %d, %v", ago, size, err)
	}
}

func TestRevertIsWrittenWhereItCanBeCarriedOut(t *testing.T) {
	s := open(t)
	owner := addUser(t, s)
	r := workspace.Revert{ID: uuid.NewString(), Key: "old", At: time.Now().UTC().Truncate(time.Microsecond)}
	v := Viewer{UserID: owner, Through: "api"}
	for _, c := range []struct {
		set  string
		want Outcome
	}{
		{`phase = 'RUNNING', archive_key = 'k'`, Changed},
		{`phase = 'STANDBY', archive_key = 'old'`, Changed}, // gives up what was written since
		{`phase = 'ARCHIVED', archive_key = 'k'`, Changed},
		{`phase = 'ARCHIVED', archive_key = 'old'`, Unchanged},
		{`phase = 'STANDBY', operation = 'ARCHIVING'`, Busy},
		{`phase = 'ERROR', error_reason = 'Timeout'`, Busy},
		{`phase = 'PENDING'`, Busy},
		{`phase = 'ARCHIVED', archive_key = 'k', revert = '{"id": "x"}'`, Busy},
		{`phase = 'ARCHIVED', archive_key = 'k', revert = '{"id": "x"}', home_ctx = '{"revert_id": "x"}'`, Changed},
	} {
		w := add(t, s, owner, c.set)
		got, outcome, err := s.Revert(t.Context(), v, w.ID, r, Limits{})
		if outcome != c.want || err != nil {
			t.Errorf("%s: %s, %v, want %s", c.set, outcome, err, c.want)
		}
		if open := read(t, s, w.ID).Reverting() && read(t, s, w.ID).Revert.ID == r.ID; open != (c.want == Changed) || open && (*got.Revert != r || got.DesiredState != w.DesiredState) {
			t.Errorf("%s: reverting %v: %+v", c.set, open, got)
		}
	}
	w := add(t, s, owner, `phase = 'ARCHIVED'`, `archive_key = 'k'`)
	for _, v := range []Viewer{{UserID: addUser(t, s)}, {UserID: owner}} {
		if v.UserID == owner {
			exec(t, s, `UPDATE workspaces SET `+deletedNow+` WHERE id = $1`, string(w.ID))
		}
		if _, _, err := s.Revert(t.Context(), v, w.ID, r, Limits{}); err != postgres.ErrNotFound && !strings.Contains(err.Error(), postgres.ErrNotFound.Error()) {
			t.Errorf("Revert = %v", err)
		}
	}
	if n := value[int](t, s, `SELECT count(*) FROM workspace_history WHERE kind = 'reverting' AND new_value = 'old'`); n != 4 {
		t.Errorf("%d requests are in the history, want 4", n)
	}
}
