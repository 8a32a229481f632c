package backendtest

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

func jobSpec(id workspace.ID, kind workspace.JobKind, env ...string) backend.JobSpec {
	return backend.JobSpec{ID: id, Kind: kind, OpID: uuid.NewString(), Env: env}
}

// ended waits for the end of the workspace's only job and returns it.
func ended(t *testing.T, b backend.Backend, id workspace.ID) workspace.Job {
	t.Helper()
	var job workspace.Job
	wait.Until(t, "job ended", func() bool {
		all := jobs(t, b, id)
		if len(all) > 1 {
			t.Fatalf("jobs: %+v, want one", all)
		}
		if len(all) == 0 {
			return false
		}
		job = all[0]
		return job.State != workspace.JobRunning
	})
	return job
}

func testJobOutcomes(t *testing.T, f Fixture) {
	b := f.New(t, Installation())
	for name, c := range map[string]struct {
		env  []string
		want workspace.Job
	}{
		"succeeded": {[]string{"TEST_SIZE=4711"}, workspace.Job{State: workspace.JobSucceeded, Size: 4711}},
		"corrupted": {fails(contract.ExitCorrupted, "checksum differs"), workspace.Job{
			State: workspace.JobFailed, Reason: workspace.ReasonArchiveCorrupted, Message: "checksum differs",
		}},
		"missing": {fails(contract.ExitMissing, "no such archive"), workspace.Job{
			State: workspace.JobFailed, Reason: workspace.ReasonDataLost, Message: "no such archive",
		}},
		"unreachable": {fails(contract.ExitUnreachable, "no route"), workspace.Job{
			State: workspace.JobFailed, Reason: workspace.ReasonUnreachable, Message: "no route",
		}},
		"disk full": {fails(contract.ExitDiskFull, "no space"), workspace.Job{
			State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "the disk is full: no space",
		}},
		"other": {fails(contract.ExitOther, "something"), workspace.Job{
			State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "something",
		}},
		"silent": {[]string{"TEST_SILENT=1", "TEST_EXIT=1"},
			workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "exit code 1"}},
		"success without a result": {[]string{"TEST_SILENT=1"},
			workspace.Job{
				State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "it ended without a result",
				ResultLost: true,
			}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, id := Context(t), newID()
			must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
			spec := jobSpec(id, workspace.JobRestore, c.env...)
			must(t, b.StartJob(ctx, spec))
			c.want.Kind, c.want.OpID = spec.Kind, spec.OpID
			if got := ended(t, b, id); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			// A job with that name exists. It has ended, but is not run again.
			must(t, b.StartJob(ctx, spec))
			if got := jobs(t, b, id); len(got) != 1 || got[0] != c.want {
				t.Errorf("after a second StartJob: %+v", got)
			}
			must(t, b.DeleteJobs(ctx, id))
			must(t, b.DeleteJobs(ctx, id))
			if n := f.JobCount(t, id); n != 0 {
				t.Errorf("%d jobs after DeleteJobs", n)
			}
			must(t, b.DeleteVolume(ctx, id, "op"))
		})
	}
}

func fails(code int, text string) []string {
	return []string{fmt.Sprintf("TEST_EXIT=%d", code), "TEST_ERROR=" + text}
}

// testNewLeaderFindsJob checks that a job survives the process that started it.
func testNewLeaderFindsJob(t *testing.T, f Fixture) {
	installation, id, ctx := Installation(), newID(), Context(t)
	first := f.New(t, installation)
	must(t, first.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	spec := jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")
	must(t, first.StartJob(ctx, spec))
	must(t, first.Close())

	second := f.New(t, installation)
	want := workspace.Job{Kind: workspace.JobArchive, OpID: spec.OpID, State: workspace.JobRunning}
	all, err := second.Jobs(ctx)
	must(t, err)
	if len(all) != 1 || len(begun(all[id])) != 1 || all[id][0] != want {
		t.Fatalf("jobs: %+v, want %+v", all, want)
	}
	must(t, second.StartJob(ctx, spec))
	if n := f.JobCount(t, id); n != 1 {
		t.Fatalf("%d jobs after starting the same again", n)
	}
	if containers, err := second.Containers(ctx); err != nil || len(containers) != 0 {
		t.Fatalf("containers: %v, %v, want none: a job is not a workspace", containers, err)
	}
	// Two jobs would write to one volume.
	for _, kind := range []workspace.JobKind{workspace.JobRestore, workspace.JobArchive} {
		refused(t, second.StartJob(ctx, jobSpec(id, kind)), workspace.ReasonActionFailed)
	}
	if got := jobs(t, second, id); len(got) != 1 || got[0] != want {
		t.Fatalf("jobs: %+v, want %+v alone", got, want)
	}
	must(t, second.DeleteJobs(ctx, id))
	if got := jobs(t, second, id); len(got) != 0 {
		t.Fatalf("jobs after DeleteJobs: %+v", got)
	}
	must(t, second.DeleteVolume(ctx, id, "op"))
}

func testJobRefused(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	refused(t, b.StartJob(ctx, jobSpec(id, workspace.JobRestore)), workspace.ReasonContainerWithoutVolume)
	if f.VolumeExists(t, id) || f.JobCount(t, id) != 0 {
		t.Error("the refused job left an object behind")
	}
	endpoint := started(t, b, id)
	refused(t, b.StartJob(ctx, jobSpec(id, workspace.JobArchive)), workspace.ReasonActionFailed)
	exitWith(t, endpoint, 0)
	wait.Until(t, "container exited", func() bool { c, _ := containerOf(t, b, id); return !c.Running })
	refused(t, b.StartJob(ctx, jobSpec(id, workspace.JobArchive)), workspace.ReasonActionFailed)
	if n := f.JobCount(t, id); n != 0 {
		t.Errorf("%d jobs exist beside a container", n)
	}
	for _, spec := range []backend.JobSpec{
		{ID: id, Kind: "format", OpID: uuid.NewString()},
		{ID: id, Kind: workspace.JobArchive},
		{ID: id, Kind: workspace.JobArchive, OpID: "../x"},
	} {
		if err := b.StartJob(ctx, spec); err == nil {
			t.Errorf("job %+v was started", spec)
		}
	}
}

func testJobsConcurrently(t *testing.T, f Fixture) {
	installation, id, ctx := Installation(), newID(), Context(t)
	backends := []backend.Backend{f.New(t, installation), f.New(t, installation)}
	must(t, backends[0].Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	spec := jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = backends[i%2].StartJob(ctx, spec) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	if got := jobs(t, backends[0], id); len(got) != 1 || got[0].State != workspace.JobRunning {
		t.Fatalf("jobs: %+v, want one that runs", got)
	}
}

func testStartRefusedDuringJob(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.StartJob(ctx, jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")))
	refused(t, b.Start(ctx, backend.StartSpec{ID: id}), workspace.ReasonActionFailed)
	if f.ContainerExists(t, id) {
		t.Error("the refused start left a container")
	}
	if got := jobs(t, b, id); len(got) != 1 || got[0].State != workspace.JobRunning {
		t.Errorf("jobs: %+v, want the one that runs", got)
	}
	must(t, b.DeleteJobs(ctx, id))
	must(t, b.StartJob(ctx, jobSpec(id, workspace.JobArchive)))
	ended(t, b, id)
	must(t, b.Start(ctx, backend.StartSpec{ID: id})) // a job that has ended does not prevent a start
}

// testStartAgainstJob lets two leaders, one of them deposed, start a container and a job at the same time. The
// container and the job must never run together.
func testStartAgainstJob(t *testing.T, f Fixture) {
	installation, ctx := Installation(), Context(t)
	one, two := f.New(t, installation), f.New(t, installation)
	for range 3 {
		id := newID()
		must(t, one.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
		var start, job error
		var wg sync.WaitGroup
		wg.Go(func() { start = one.Start(ctx, backend.StartSpec{ID: id}) })
		wg.Go(func() { job = two.StartJob(ctx, jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")) })
		wg.Wait()
		c, _ := containerOf(t, one, id)
		running := 0
		for _, j := range jobs(t, one, id) {
			if j.State == workspace.JobRunning {
				running++
			}
		}
		if c.Running && running > 0 {
			t.Errorf("container and job run together (Start: %v, StartJob: %v)", start, job)
		}
		if start == nil && !c.Running {
			t.Error("Start succeeded and the container does not run")
		}
		if job == nil && running == 0 {
			t.Error("StartJob succeeded and the job does not run")
		}
		must(t, one.Delete(ctx, id))
		must(t, one.DeleteJobs(ctx, id))
	}
}

// testGrant checks that the job finds its grant before it does anything, and that nothing else finds the grant: the
// engine's API shows it nowhere, and the next job does not find it.
func testGrant(t *testing.T, f Fixture) {
	installation, id, ctx := Installation(), newID(), Context(t)
	b := f.New(t, installation)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	secret := "X-Amz-Signature=" + strings.ReplaceAll(uuid.NewString(), "-", "")
	grant := []byte(`{"requests":[{"url":"` + secret + `"}]}`)
	for _, kind := range []workspace.JobKind{workspace.JobArchive, workspace.JobRestore} {
		spec := jobSpec(id, kind, fmt.Sprintf("TEST_GRANT=%x", sha256.Sum256(grant)), "TEST_SIZE=7")
		spec.Grant = grant
		must(t, b.StartJob(ctx, spec))
		if got, want := ended(t, b, id), (workspace.Job{
			Kind: kind, OpID: spec.OpID, State: workspace.JobSucceeded, Size: 7,
		}); got != want {
			t.Errorf("with a grant: %+v", got)
		}
		must(t, b.DeleteJobs(ctx, id))
	}

	// While the job runs.
	spec := jobSpec(id, workspace.JobArchive, fmt.Sprintf("TEST_GRANT=%x", sha256.Sum256(grant)), "TEST_WAIT=1")
	spec.Grant = grant
	must(t, b.StartJob(ctx, spec))
	if report := f.JobReport(t, id); report == "" || strings.Contains(report, secret) ||
		strings.Contains(report, "X-Amz-Signature") {
		t.Errorf("the engine tells: %s", report)
	}
	// Another process that starts the same job creates a grant of its own. The job keeps the grant that it was started
	// with.
	again := spec
	again.Grant = []byte(`{}`)
	must(t, f.New(t, installation).StartJob(ctx, again))
	if got := jobs(t, b, id); len(got) != 1 || got[0].State != workspace.JobRunning {
		t.Errorf("jobs: %+v, want the one that runs", got)
	}
	must(t, b.DeleteJobs(ctx, id))

	must(t, b.StartJob(ctx, jobSpec(id, workspace.JobArchive, "TEST_NO_GRANT=1")))
	if got := ended(t, b, id); got.State != workspace.JobSucceeded {
		t.Errorf("a job without a grant: %+v", got)
	}
	must(t, b.DeleteJobs(ctx, id))
	must(t, b.DeleteVolume(ctx, id, "op"))
}

// testEnvironmentStaysSecret checks that errors and messages do not contain the environment of a job.
func testEnvironmentStaysSecret(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	const secret = "s3cr3t-k3y-of-the-object-store"
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	for _, env := range [][]string{{"=" + secret}, {secret}, {"KEY=" + secret + "\x00"}} {
		err := b.StartJob(ctx, jobSpec(id, workspace.JobArchive, env...))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("a malformed environment: %v", err)
		}
	}
	must(t, b.StartJob(ctx, jobSpec(id, workspace.JobArchive, "AWS_SECRET_ACCESS_KEY="+secret, "TEST_SILENT=1",
		"TEST_EXIT=1")))
	if job := ended(t, b, id); strings.Contains(fmt.Sprintf("%+v", job), secret) {
		t.Errorf("the job's message holds the secret: %+v", job)
	}
}

// testJobProgress checks that the reported progress changes exactly when the job makes progress. It must therefore
// contain counters and no times.
func testJobProgress(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.StartJob(ctx, jobSpec(id, workspace.JobArchive, "TEST_PROGRESS=1")))
	var seen []int64
	wait.Until(t, "progress twice", func() bool {
		got := jobs(t, b, id)
		if len(got) != 1 || got[0].State != workspace.JobRunning {
			t.Fatalf("jobs: %+v, want one that runs", got)
		}
		if got[0].Progress == "" {
			return false
		}
		var p contract.ProgressLine
		must(t, json.Unmarshal([]byte(got[0].Progress), &p))
		if p.Event != contract.EventProgress || p.Step != contract.StepArchive || p.Seconds != 0 ||
			p.BytesPerSecond != 0 || p.ETA != nil {
			t.Fatalf("progress %s", got[0].Progress)
		}
		if len(seen) == 0 || p.Bytes != seen[len(seen)-1] {
			seen = append(seen, p.Bytes)
		}
		return len(seen) == 2
	})
	if seen[0] >= seen[1] {
		t.Errorf("%d bytes, and then %d", seen[0], seen[1])
	}
	must(t, b.DeleteJobs(ctx, id))
}
