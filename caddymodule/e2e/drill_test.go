package e2e

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestRestoreDrill is the restore drill of the guide (SPEC 12.9). The database comes from a backup that is older than
// the objects, and Redis is empty. Another engine answers, which has no container, volume or image of the installation.
// No object is collected or overwritten. Every workspace with an archive opens as its user last left it. The output
// names the workspaces without one.
func TestRestoreDrill(t *testing.T) {
	if devenv.OnKubernetes() || os.Getuid() != 0 {
		t.Skip("root runs another engine")
	}
	t.Parallel()
	empty := devenv.Redis(t)
	in := install(t, "LIMITS_MAX_RUNNING_PER_USER=100")
	me := in.admin(t)
	sums := make(map[string]string) // of the file in each home, as it was left last
	leave := func(id string) {
		t.Helper()
		out := me.run(t, me.enter(t, id), "head -c 100000 /dev/urandom >file && sha256sum file")
		sums[id], _, _ = strings.Cut(out, " ")
		if len(sums[id]) != 64 {
			t.Fatalf("the terminal printed %q", out)
		}
	}
	archived := func(id string) string {
		t.Helper()
		me.setDesiredState(t, id, "ARCHIVED")
		return me.awaitPhase(t, id, "ARCHIVED").ArchiveKey
	}
	intact, changed, deleted, running := me.create(t, "intact").ID, me.create(t, "changed").ID, me.create(t, "deleted").ID, me.create(t, "running").ID
	for _, id := range []string{intact, changed, deleted, running} {
		leave(id)
	}
	for _, id := range []string{intact, changed, deleted} {
		archived(id)
	}
	dump, dsn := filepath.Join(t.TempDir(), "codehub.dump"), in.env1("DATABASE_URL")
	in.postgres(t, "pg_dump", "--format=custom", "--file="+dump, dsn)

	// These changes are made after the backup, so the backup does not contain them.
	leave(changed)
	newest := archived(changed)
	created := me.create(t, "created").ID
	leave(created)
	archived(created)
	me.call(t, http.MethodDelete, "/api/v1/workspaces/"+deleted, nil, http.StatusAccepted, nil)
	wait.For(t, "container and volume of the deleted one are gone", func() error { return in.leftovers(t, deleted) })

	// The disaster.
	in.kill()
	before := in.archives(t)
	another := newOwnEngine(t, false)
	another.start(t)
	lost := in.docker
	in.docker = devenv.Inspect(t, another.host(), in.id)
	in.engine = in.docker
	t.Cleanup(func() { // before the other engine ends
		in.stop(t)
		devenv.Clear(t, in.engine)
		in.engine = lost
	})
	in.env = append(in.env, "DOCKER_HOST="+another.host(), "REDIS_URL="+empty, "COORDINATOR_GC_DELAY=1s", "COORDINATOR_UNDELETE_FOR=1s")
	in.postgres(t, "pg_restore", "--clean", "--if-exists", "--no-owner", "--dbname="+dsn, dump)

	// From here on, the test follows the steps of the drill in the guide.
	in.verify(t, "accept backend", changed+": opened, it is in ERROR Conflict", created+": the database does not know it")
	if out, err := in.command(t, "codehub", "user", "sign-out", "--all", "--yes"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	in.start(t)
	if res, _ := me.request(t, http.MethodGet, "/api/v1/me", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("a sign-in of before: %s", res.Status)
	}
	me = in.admin(t)
	wait.For(t, "the engine is accepted", func() error {
		_, err := in.command(t, "codehub", "accept", "backend", "--yes", "--config", in.config)
		return err
	})
	me.awaitPhase(t, running, "ERROR")
	for range 2 { // what the first one marks, the second one may delete
		var c struct {
			Report struct{ Deleted, Reported int }
		}
		me.call(t, http.MethodPost, "/api/v1/admin/gc", map[string]bool{"dry_run": false}, http.StatusOK, &c)
		if c.Report.Deleted != 0 || c.Report.Reported != 2 { // the newer one, and that of the unknown workspace
			t.Errorf("a collection: %+v", c)
		}
	}
	if now := in.archives(t); !slices.Equal(now, before) {
		t.Errorf("the objects %q have become %q", before, now)
	}
	// A workspace that waits for an image continues when the engine has it.
	me.setDesiredState(t, intact, "RUNNING")
	wait.For(t, "the job's image is missing", func() error {
		var w struct{ Waiting struct{ Reason string } }
		me.call(t, http.MethodGet, "/api/v1/workspaces/"+intact, nil, http.StatusOK, &w)
		if w.Waiting.Reason != "JobImage" {
			return fmt.Errorf("it waits for %q", w.Waiting.Reason)
		}
		return nil
	})
	carry(t, lost, in.docker, in.env1("CODEHUB_WORKSPACE_IMAGE"), in.env1("CODEHUB_JOB_IMAGE"))
	me.setDesiredState(t, changed, "RUNNING")
	if w := me.awaitPhase(t, changed, "ERROR"); w.ErrorReason != "Conflict" || !strings.Contains(w.ErrorMessage, newest) {
		t.Errorf("the changed one: %+v", w)
	}
	in.verify(t, changed+": it is in ERROR Conflict", created+": the database does not know it", running+": it is in ERROR DataLost")
	for _, args := range [][]string{
		{"recover", changed, "--from-archive", newest}, {"adopt", created, "--owner", "admin", "--name", "created"},
	} {
		if out, err := in.command(t, append(append([]string{"codehub", "workspace"}, args...), "--config", in.config)...); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	for _, id := range []string{intact, changed, created, deleted} { // its deletion is forgotten, too
		if out := me.run(t, me.enter(t, id), "sha256sum file"); !strings.HasPrefix(out, sums[id]+" ") {
			t.Errorf("%s has the file %q, and %s was left", id, out, sums[id])
		}
	}
	in.verify(t, running+": it is in ERROR DataLost", "1 problem found")
}

// carry copies images from one engine to another.
func carry(t *testing.T, from, to *inspect.Docker, images ...string) {
	t.Helper()
	saved, err := from.ImageSave(t.Context(), images)
	if err != nil {
		t.Fatal(err)
	}
	defer saved.Close()
	loaded, err := to.ImageLoad(t.Context(), saved)
	if err == nil {
		_, err = io.Copy(io.Discard, loaded.Body)
		loaded.Body.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestAdoptAVolume adopts workspaces that the database does not know. It finds them by their volumes on a real engine.
// One workspace was never archived, and the other was used after it was archived. It does not adopt those of another
// installation or another engine.
func TestAdoptAVolume(t *testing.T) {
	if devenv.OnKubernetes() {
		t.Skip("volumes of two installations may have one name there")
	}
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	dump, dsn := filepath.Join(t.TempDir(), "codehub.dump"), in.env1("DATABASE_URL")
	in.postgres(t, "pg_dump", "--format=custom", "--file="+dump, dsn)

	leave := func(id, text string) {
		t.Helper()
		me.run(t, me.enter(t, id), "printf "+text+" >file && sync")
		me.setDesiredState(t, id, "STANDBY")
		me.awaitPhase(t, id, "STANDBY")
	}
	never, since := me.create(t, "never archived").ID, me.create(t, "used since").ID
	leave(never, "only-here")
	leave(since, "archived")
	me.setDesiredState(t, since, "ARCHIVED")
	key := me.awaitPhase(t, since, "ARCHIVED").ArchiveKey
	leave(since, "newer")
	foreign, other := uuid.NewString(), devenv.Inspect(t, in.env1("DOCKER_HOST"), devenv.Installation("other"))
	t.Cleanup(func() { devenv.Clear(t, other) })
	if err := other.MakeVolume(t.Context(), foreign, "op"); err != nil {
		t.Fatal(err)
	}

	in.kill()
	in.postgres(t, "pg_restore", "--clean", "--if-exists", "--no-owner", "--dbname="+dsn, dump)
	adopt := func(id, says string, fails bool) {
		t.Helper()
		out, err := in.command(t, "codehub", "workspace", "adopt", id, "--owner", "admin", "--config", in.config)
		if fails != (err != nil) || !strings.Contains(out, says) {
			t.Fatalf("adopt %s: %v: %s, without %q", id, err, out, says)
		}
	}
	adopt(foreign, "there is no volume", true)
	in.sql(t, "UPDATE system_identity SET identity = 'another/' || identity WHERE resource = 'backend'")
	adopt(never, "another/", true)
	in.sql(t, "UPDATE system_identity SET identity = substr(identity, 9) WHERE resource = 'backend'")
	in.verify(t, "ws-"+never+"-home is of a workspace that the database does not know", since+": the database does not know it, and it has 1 archive")
	adopt(never, "caddy codehub workspace recover "+never, false)
	adopt(since, "with the files of "+key, false)

	in.start(t)
	me = in.admin(t)
	for id, text := range map[string]string{never: "only-here", since: "newer"} {
		if w := me.awaitPhase(t, id, "ERROR"); w.ErrorReason != "Conflict" {
			t.Errorf("%s: %s: %s", text, w.ErrorReason, w.ErrorMessage)
		}
		out, err := in.command(t, "codehub", "workspace", "recover", id, "--keep-volume", "--yes", "--config", in.config)
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		if got := me.run(t, me.enter(t, id), "cat file"); strings.TrimSpace(got) != text {
			t.Errorf("the file holds %q, want %q", got, text)
		}
	}
	if _, exists, err := other.Volume(t.Context(), foreign); !exists || err != nil {
		t.Errorf("the volume of the other installation: %v, %v", exists, err)
	}
}

// verify runs `caddy codehub verify --read`, which finds problems and reports them.
func (in *installation) verify(t *testing.T, says ...string) {
	t.Helper()
	out, err := in.command(t, "codehub", "verify", "--read", "--config", in.config)
	if err == nil {
		t.Errorf("verify finds no problem: %s", out)
	}
	for _, s := range says {
		if !strings.Contains(out, s) {
			t.Errorf("verify printed %s without %q", out, s)
		}
	}
}

// postgres runs one of PostgreSQL's programs.
func (in *installation) postgres(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
}

// archives returns the entity tags and the keys of all objects in the bucket.
func (in *installation) archives(t *testing.T) (all []string) {
	t.Helper()
	out, err := in.s3.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &in.bucket})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range out.Contents {
		all = append(all, aws.ToString(o.ETag)+" "+aws.ToString(o.Key))
	}
	return all
}
