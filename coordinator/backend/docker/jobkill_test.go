package docker_test

import (
	"archive/tar"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// killable is the image of a storage job that kills itself before the step whose number
// [killAt] names. It is the program of the job's own tests: the product's has no such switch.
func (e *engine) killable(t *testing.T) string {
	t.Helper()
	binary, err := compiled("test", "-c", "github.com/codehub/gateway/storagejob")
	must(t, err)
	rootfs := packRootfs(t, []*tar.Header{
		{Name: "tmp/", Mode: 0o1777, Typeflag: tar.TypeDir},
		{Name: "storagejob.test", Mode: 0o755, Typeflag: tar.TypeReg},
	}, binary)
	return buildFrom(t, e.api, "codehub/killablejob", "FROM scratch\nADD rootfs.tar /\nENV STORAGEJOB_TEST_AS_JOB=1\n"+
		"LABEL codehub.contract=1\nENTRYPOINT [\"/storagejob.test\"]\n", rootfs)
}

const killAt = "STORAGEJOB_TEST_KILL_AT"

// TestStorageJobsAreKilledAnywhere: with real containers, before each step of the job. Its
// container is removed, and its result with it, as docker rm -f does. The next run of the same
// operation ends the work or finds it ended (SPEC 7, 12.12).
func TestStorageJobsAreKilledAnywhere(t *testing.T) {
	t.Parallel()
	e, store := newEngine(t), devenv.S3(t)
	image := e.killable(t)
	e.change = func(o *docker.Options) { o.JobImage, o.JobNetwork = image, "host" }
	b := e.New(t, backendtest.Installation())

	// do runs a job, killed before its n-th step or to its end, and removes its container.
	do := func(id workspace.ID, kind workspace.JobKind, op, key string, n int) workspace.Job {
		t.Helper()
		s := backend.JobSpec{ID: id, Kind: kind, OpID: op, Env: []string{
			contract.EnvArchiveURL + "=" + contract.ArchiveURL(store.Bucket, key), contract.EnvOperation + "=" + op,
			contract.EnvAccessKey + "=" + store.AccessKey, contract.EnvSecretKey + "=" + store.SecretKey,
			contract.EnvRegion + "=" + store.Region, contract.EnvEndpoint + "=" + store.Endpoint, contract.EnvPathStyle + "=true",
			contract.EnvNewVolume + "=true",
		}}
		if n > 0 {
			s.Env = append(s.Env, fmt.Sprintf("%s=%d", killAt, n))
		}
		must(t, b.StartJob(t.Context(), s))
		var job workspace.Job
		wait.Until(t, "job ended", func() bool {
			all, err := b.Jobs(t.Context(), id)
			must(t, err)
			if len(all[id]) == 1 {
				job = all[id][0]
			}
			return job.State == workspace.JobSucceeded || job.State == workspace.JobFailed
		})
		must(t, e.api.ContainerRemove(t.Context(), s.Name(), container.RemoveOptions{Force: true, RemoveVolumes: true}))
		return job
	}
	// again runs it to its end after it was killed before its n-th step. It reports false if it
	// has no such step.
	again := func(id workspace.ID, kind workspace.JobKind, op, key string, n int) (workspace.Job, bool) {
		t.Helper()
		killed := do(id, kind, op, key, n)
		if killed.State == workspace.JobSucceeded {
			return killed, false
		}
		if _, step, ok := strings.Cut(killed.Message, "killed before: "); !ok || !killed.Disrupted {
			t.Fatalf("%s, step %d: %+v", kind, n, killed)
		} else if job := do(id, kind, op, key, 0); job.State != workspace.JobSucceeded {
			t.Fatalf("%s, killed before %s: %+v", kind, step, job)
		} else {
			t.Logf("%s, killed before %s: %d files", kind, step, job.Files)
			return job, true
		}
		return killed, false
	}
	fresh := func() string { return "archives/" + uuid.NewString() + "/home.tar.zst" }

	home, key := newID(), fresh()
	address := start(t, b, backend.StartSpec{ID: home})
	for i := range 5 {
		name := fmt.Sprintf("http://%s/file?name=file-%d", address, i)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, name, strings.NewReader(strings.Repeat(name, 1000*i)))
		must(t, err)
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		must(t, resp.Body.Close())
	}
	must(t, b.Delete(t.Context(), home))
	want := do(home, workspace.JobArchive, uuid.NewString(), key, 0)
	if want.State != workspace.JobSucceeded || want.Files == 0 || want.SHA256 == "" {
		t.Fatalf("the home's archive: %+v", want)
	}
	same := func(what string, n int, got workspace.Job) {
		t.Helper()
		if got.State != workspace.JobSucceeded || got.SHA256 != want.SHA256 || got.Size != want.Size {
			t.Errorf("%s, killed at step %d: %+v, want %+v", what, n, got, want)
		}
	}

	n := 1
	for ; ; n++ {
		got, more := again(home, workspace.JobArchive, uuid.NewString(), fresh(), n)
		same("archive", n, got)
		if !more {
			break
		}
	}
	if n < 6 {
		t.Errorf("an archive announces only %d steps", n)
	}
	for n = 1; ; n++ {
		id, op := newID(), uuid.NewString()
		must(t, b.Provision(t.Context(), id, op))
		_, more := again(id, workspace.JobRestore, op, key, n)
		// The home is compared as what its archive would hold.
		same("restore", n, do(id, workspace.JobArchive, op, fresh(), 0))
		must(t, b.DeleteVolume(t.Context(), id, op))
		if !more {
			break
		}
	}
	if n < 15 {
		t.Errorf("a restore announces only %d steps", n)
	}
}
