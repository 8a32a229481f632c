package processtest

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/release"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestUpgradeWithFiles upgrades an installation of an older release while it runs. A process of this release starts
// beside the old one, which continues to serve requests, and to lead if the schema lets it. No file is lost, and no
// workspace ends in ERROR. The old process removes nothing that this release has written or keeps (SPEC 12.14). This
// test covers the first and the last release. Package coordinator tests the others without an engine.
func TestUpgradeWithFiles(t *testing.T) {
	t.Parallel()
	if devenv.OnKubernetes() {
		t.Skip("an older release of this test runs on Docker")
	}
	for _, past := range []release.Past{release.All[0], release.Last()} {
		t.Run(past.String(), func(t *testing.T) {
			t.Parallel()
			u := newUpgrade(t, past)
			old := u.startOld(t)
			old.await(t, "leads")
			homes := u.leaveHomes(t, old)

			first := u.process(t, "new", u.keeping)
			u.mayLead = past.Schema >= postgrestest.Value[int](t, u.pool, `SELECT lead FROM schema_requirements`)
			if u.mayLead {
				// This release's schema does not hinder the old process: it continues.
				u.goThrough(t, old, homes[0])
				old.signal(t, syscall.SIGKILL)
				first.await(t, "leads")
				old = u.startOld(t)
			} else {
				old.await(t, "follows")
				first.await(t, "leads")
			}
			u.open(t)
			for _, h := range homes {
				u.goThrough(t, old, h)
			}
			u.touch(t, old, homes[0])

			first.signal(t, syscall.SIGKILL)
			second := u.goBack(t, old, homes)
			u.goThrough(t, old, homes[0])
			old.signal(t, syscall.SIGKILL)
			second.await(t, "leads")
			for _, h := range homes {
				h.run(t)
				h.compare(t)
			}
			u.unharmed(t, homes)

			second.signal(t, syscall.SIGKILL)
			if !u.mayLead {
				u.wouldCollect(t, homes[0])
			}
		})
	}
}

// upgrade is an installation that is upgraded.
type upgrade struct {
	*installation
	release release.Release
	mayLead bool          // the old release, beside this one
	pool    *pgxpool.Pool // of the database, whichever schema it has
	asked   int
}

// upgradedHome is a home with a description of all files that its user has left there.
type upgradedHome struct {
	*home
	pool  *pgxpool.Pool
	files string
}

// newUpgrade prepares an installation on which the release has not run yet.
func newUpgrade(t testing.TB, past release.Past) *upgrade {
	t.Helper()
	u := &upgrade{release: past.Build(t), installation: installServers(t, devenv.PostgreSQL(t))}
	u.config.GCDelay, u.config.GCInterval = time.Second, time.Second
	var err error
	if u.pool, err = pgxpool.New(t.Context(), u.config.Database); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(u.pool.Close)
	u.owner = service.Actor{UserID: uuid.NewString(), Through: "test"}
	return u
}

// startOld starts a process of the old release with its own storage job.
func (u *upgrade) startOld(t testing.TB) *process {
	t.Helper()
	c := release.Config{
		Node: "old", Database: u.config.Database, Redis: u.config.Redis, Archive: u.config.Archive, Docker: u.config.Docker,
		GCDelay: u.config.GCDelay, GCInterval: u.config.GCInterval, Keep: keep,
	}
	c.Docker.JobImage = u.release.StorageJob(t)
	return startProgram(t, c.Node, u.release.Process(), c.Variable(t))
}

// keep is how many archives are kept. Releases without a version would collect most of them.
const keep = 10

func (*upgrade) keeping(c *processConfig) { c.Keep = keep }

// goBack leaves the installation to the old release, as an operator does who undoes an upgrade. Then it starts a
// process of this release again, and returns it.
func (u *upgrade) goBack(t testing.TB, old *process, homes []*upgradedHome) *process {
	t.Helper()
	if !u.mayLead {
		u.onlyOld(t, old, homes)
		second := u.process(t, "newer", u.keeping)
		second.await(t, "leads")
		return second
	}
	u.exec(t, `UPDATE workspaces SET home_ctx = home_ctx || $1, conditions = conditions || $1`, newer)
	archives := u.archives(t)
	old.await(t, "leads")
	for _, h := range homes {
		u.goThrough(t, old, h)
	}
	now := u.archives(t)
	for _, key := range archives {
		if !slices.Contains(now, key) {
			t.Errorf("the old release has deleted %s, one of the last %d archives", key, keep)
		}
	}
	return u.process(t, "newer", u.keeping)
}

// ask makes the old process do something, and returns the result.
func (u *upgrade) ask(t testing.TB, p *process, words ...any) (made string, err error) {
	t.Helper()
	u.asked++
	answer := fmt.Sprint(u.asked, " ")
	fmt.Fprint(p.stdin, answer, u.owner.UserID, " ", fmt.Sprintln(words...))
	p.awaitAny(t, fmt.Sprint("the answer to ", words), func() bool {
		for _, l := range p.lines {
			if got, ok := strings.CutPrefix(l, answer); ok {
				i := strings.LastIndex(got, " ")
				if made, err = got[i+1:], nil; got[:i] != "<nil>" {
					err = errors.New(got[:i])
				}
				return true
			}
		}
		return false
	})
	return made, err
}

// bring makes the old process request each of the phases in turn. It returns when the workspace has reached the last of
// them.
func (u *upgrade) bring(t testing.TB, old *process, h *upgradedHome, phases ...workspace.Phase) {
	t.Helper()
	for _, phase := range phases {
		wait.For(t, "the old process asks for "+string(phase), func() error { // refused during an operation
			_, err := u.ask(t, old, "desire", h.id, phase)
			return err
		})
		h.await(t, phase)
	}
}

// await returns when the workspace has the phase and no operation. It works with every schema.
func (h *upgradedHome) await(t testing.TB, phase workspace.Phase) {
	t.Helper()
	wait.For(t, "the workspace is "+string(phase), func() error {
		is := postgrestest.Value[string](t, h.pool, `SELECT phase || ' ' || operation FROM workspaces WHERE id = $1`, h.id)
		if strings.HasPrefix(is, string(workspace.PhaseError)) {
			t.Fatalf("the workspace is in ERROR: %s", h.described(t))
		}
		if is == string(phase)+" "+string(workspace.OpNone) {
			return nil
		}
		return errors.New(h.described(t))
	})
}

// described returns the whole row.
func (h *upgradedHome) described(t testing.TB) string {
	t.Helper()
	return postgrestest.Value[string](t, h.pool, `SELECT to_jsonb(w)::text FROM workspaces w WHERE id = $1`, h.id)
}

// leaveHomes makes the old release leave four kinds of homes: an archived one, a sleeping one, one in use, and one in
// use that the old release has restored before.
func (u *upgrade) leaveHomes(t testing.TB, old *process) (homes []*upgradedHome) {
	t.Helper()
	postgrestest.Exec(t, u.pool, `INSERT INTO users (id, username) VALUES ($1, 'ann')`, u.owner.UserID)
	for range 4 {
		id, err := u.ask(t, old, "create", "home")
		if err != nil {
			t.Fatal(err)
		}
		homes = append(homes, &upgradedHome{home: &home{installation: u.installation, id: workspace.ID(id)}, pool: u.pool})
	}
	for i, phases := range [][]workspace.Phase{
		{workspace.PhaseStandby, workspace.PhaseArchived},
		{workspace.PhaseStandby},
		{},
		{workspace.PhaseStandby, workspace.PhaseArchived, workspace.PhaseRunning},
	} {
		homes[i].await(t, workspace.PhaseRunning)
		homes[i].leave(t, "old")
		u.bring(t, old, homes[i], phases...)
	}
	homes[3].compare(t)
	return homes
}

// goThrough uses a home: if the home is archived, the leading release restores it first. Then it is changed, archived
// and restored, and always has the files that its user has left.
func (u *upgrade) goThrough(t testing.TB, old *process, h *upgradedHome) {
	t.Helper()
	u.bring(t, old, h, workspace.PhaseRunning)
	h.compare(t)
	h.leave(t, uuid.NewString())
	u.bring(t, old, h, workspace.PhaseStandby, workspace.PhaseArchived, workspace.PhaseRunning)
	h.compare(t)
}

// leave leaves files of each kind in a folder of the home.
func (h *upgradedHome) leave(t testing.TB, folder string) {
	t.Helper()
	data := make([]byte, 256<<10)
	_, _ = rand.Read(data)
	h.exec(t, bytes.NewReader(data), `set -e; cd /home/coder; rm -rf `+folder+`; mkdir -p `+folder+`/a/b '`+folder+`/빈 폴더'; cd `+folder+`
		cat >a/random; echo 안녕 >'a/b/한글 파일'; : >empty; ln a/random hard; ln -s a/b/../random soft; ln -s /nowhere dangling
		echo '#!/bin/sh' >run; chmod 750 run; echo secret >secret; chmod 600 secret; chmod 700 a/b
		dd if=/dev/zero of=sparse bs=1 count=1 seek=5000000 2>/dev/null; echo old >dated; touch -d '2001-02-03 04:05:06' dated a; sync`)
	h.files = h.manifest(t)
}

// manifest describes every file of the home: name, kind, mode, owner, times, links and content.
func (h *upgradedHome) manifest(t testing.TB) string {
	t.Helper()
	return string(h.exec(t, nil, `set -e; cd /home/coder; find . | sort | while IFS= read -r f; do
		if [ -d "$f" ]; then stat -c '%n %A %u:%g %y' "$f"; else stat -c '%n %A %u:%g %y %h %s' "$f"; fi
		if [ -L "$f" ]; then readlink "$f"; elif [ -f "$f" ]; then sha256sum <"$f"; fi
	done`))
}

// compare fails the test unless the files of the running workspace are those that its user has left.
func (h *upgradedHome) compare(t testing.TB) {
	t.Helper()
	got, want := strings.Split(h.manifest(t), "\n"), strings.Split(h.files, "\n")
	if len(want) < 20 {
		t.Fatalf("the home of %s had only %q", h.id, want)
	}
	for _, l := range want {
		if !slices.Contains(got, l) {
			t.Errorf("in the home of %s is missing:   %s", h.id, l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			t.Errorf("in the home of %s was not left: %s", h.id, l)
		}
	}
}

// touch uses a home through the old process, and waits until the leader knows.
func (u *upgrade) touch(t testing.TB, old *process, h *upgradedHome) {
	t.Helper()
	used := func() string {
		return postgrestest.Value[string](t, u.pool, `SELECT COALESCE(last_access_at::text, '') FROM workspaces WHERE id = $1`, h.id)
	}
	before := used()
	if _, err := u.ask(t, old, "use", h.id); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the use is known", func() bool { return used() != before })
}

// onlyOld leaves the installation to two processes of the old release: the given one, and one that onlyOld starts. They
// do what requests ask for, and nothing else. They do not lead and change no other column. If a newer release has
// written values into columns that they know, they keep these values. They delete no archive that the newer release
// keeps.
func (u *upgrade) onlyOld(t testing.TB, old *process, homes []*upgradedHome) {
	t.Helper()
	u.exec(t, `UPDATE workspaces SET home_ctx = home_ctx || $1, conditions = conditions || $1,
		waiting = COALESCE(waiting, '{}') || $1, recovery = COALESCE(recovery, '{}') || $1, busy = COALESCE(busy, '{}') || $1,
		progress = COALESCE(progress, '{}') || $1, revert = COALESCE(revert, '{}') || $1`, newer)
	rows, archives := u.rows(t), u.archives(t)
	late := u.startOld(t)
	wait.Until(t, "the old process is refused", func() bool { return strings.Contains(late.log.String(), "too old to lead") })
	for _, p := range []*process{old, late} {
		for _, words := range [][]any{
			{"desire", homes[1].id, workspace.DesiredStandby}, {"desire", homes[1].id, workspace.DesiredRunning},
			{"note", homes[1].id}, {"use", homes[1].id},
		} {
			if _, err := u.ask(t, p, words...); err != nil {
				t.Errorf("the old process refuses %v: %v", words, err)
			}
		}
	}
	late.signal(t, syscall.SIGKILL)
	if now := u.rows(t); now != rows {
		t.Errorf("the old processes have changed\n%s\nto\n%s", rows, now)
	}
	if now := u.archives(t); !slices.Equal(now, archives) {
		t.Errorf("the archives %q have become %q", archives, now)
	}
	if n := len(old.reports("leads")); n != 1 || late.said("leads") {
		t.Error("an old process leads again")
	}
	// Remove these values again: they are short-lived, and this release would act on some of them.
	u.exec(t, `UPDATE workspaces SET waiting = NULLIF(waiting - 'newer', '{}'), recovery = NULLIF(recovery - 'newer', '{}'),
		busy = NULLIF(busy - 'newer', '{}'), progress = NULLIF(progress - 'newer', '{}'), revert = NULLIF(revert - 'newer', '{}')`)
}

// newer is a value of a newer release, as a member of a JSON column.
const newer = `{"newer": {"status": "True"}}`

// rows describes all workspaces, without the columns that requests change. When a workspace's desired state changes, a
// trigger clears the column that says why it is busy.
func (u *upgrade) rows(t testing.TB) string {
	t.Helper()
	return postgrestest.Value[string](t, u.pool, `SELECT string_agg((to_jsonb(w) - ARRAY['memo', 'desired_state', 'busy', 'last_access_at',
		'updated_at', 'revision', 'watched', 'counted', 'in_transition', 'awake_at', 'awake_by'])::text, E'\n' ORDER BY id) FROM workspaces w`)
}

func (u *upgrade) exec(t testing.TB, sql string, args ...any) {
	t.Helper()
	postgrestest.Exec(t, u.pool, sql, args...)
}

// archives returns the names of all objects of archives.
func (u *upgrade) archives(t testing.TB) (names []string) {
	t.Helper()
	ids := postgrestest.Value[[]string](t, u.pool, `SELECT array_agg(id::text ORDER BY id) FROM workspaces`)
	for _, id := range ids {
		names = append(names, (&home{installation: u.installation, id: workspace.ID(id)}).objects(t)...)
	}
	return names
}

// unharmed fails the test if a workspace is or has been in ERROR, or has lost values that a newer release has written.
func (u *upgrade) unharmed(t testing.TB, homes []*upgradedHome) {
	t.Helper()
	if failed := postgrestest.Value[string](t, u.pool, `SELECT COALESCE(string_agg(to_jsonb(h)::text, E'\n'), '') FROM workspace_history h
		WHERE kind = 'error' OR new_value = 'ERROR'`); failed != "" {
		t.Errorf("workspaces have been in ERROR:\n%s", failed)
	}
	kept := postgrestest.Value[int](t, u.pool, `SELECT count(*)::int FROM workspaces
		WHERE home_ctx @> $1 AND conditions @> $1 AND phase = 'RUNNING' AND error_reason IS NULL`, newer)
	if kept != len(homes) {
		t.Errorf("%d of %d workspaces run and have what a newer release has written", kept, len(homes))
	}
}

// wouldCollect shows that only the schema holds the old release back. Without the schema's requirement, the old
// process leads and deletes archives that this release keeps.
func (u *upgrade) wouldCollect(t testing.TB, h *upgradedHome) {
	t.Helper()
	if n := len(h.objects(t)); n < 6 {
		t.Errorf("this release keeps %q", h.objects(t))
	}
	u.exec(t, `UPDATE schema_requirements SET lead = 0`)
	u.startOld(t).await(t, "leads")
	wait.For(t, "the old process has deleted all archives but the current one", func() error {
		if left := h.objects(t); len(left) != 2 {
			return fmt.Errorf("%q are left", left)
		}
		return nil
	})
}
