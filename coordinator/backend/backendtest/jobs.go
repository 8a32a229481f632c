package backendtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

func jobSpec(id workspace.ID, kind workspace.JobKind, env ...string) backend.JobSpec {
	return backend.JobSpec{ID: id, Kind: kind, OpID: uuid.NewString(), Env: env}
}

// ended waits for the end of the workspace's only job.
func ended(t *testing.T, rt backend.Backend, id workspace.ID) workspace.Job {
	t.Helper()
	var job workspace.Job
	Eventually(t, "job ended", func() bool {
		all := jobs(t, rt, id)
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

func testJobOutcomes(t *testing.T, b Fixture) {
	rt := b.New(t, Installation())
	for name, c := range map[string]struct {
		env  []string
		want workspace.Job
	}{
		"succeeded":   {[]string{"TEST_SIZE=4711"}, workspace.Job{State: workspace.JobSucceeded, Size: 4711}},
		"corrupted":   {fails(10, "checksum differs"), workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonArchiveCorrupted, Message: "checksum differs"}},
		"missing":     {fails(11, "no such archive"), workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonDataLost, Message: "no such archive"}},
		"unreachable": {fails(12, "no route"), workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonUnreachable, Message: "no route"}},
		"disk full":   {fails(13, "no space"), workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "the disk is full: no space"}},
		"other":       {fails(1, "something"), workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "something"}},
		"silent": {[]string{"TEST_SILENT=1", "TEST_EXIT=1"},
			workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "exit code 1"}},
		"success without a result": {[]string{"TEST_SILENT=1"},
			workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "it ended without a result"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, id := Context(t), newID()
			must(t, rt.Provision(ctx, id))
			spec := jobSpec(id, workspace.JobRestore, c.env...)
			must(t, rt.StartJob(ctx, spec))
			c.want.Kind, c.want.OpID = spec.Kind, spec.OpID
			if got := ended(t, rt, id); got != c.want {
				t.Errorf("%+v, want %+v", got, c.want)
			}
			// A job that has ended is still a job of that name: it is not run again.
			must(t, rt.StartJob(ctx, spec))
			if got := jobs(t, rt, id); len(got) != 1 || got[0] != c.want {
				t.Errorf("after a second StartJob: %+v", got)
			}
			must(t, rt.DeleteJobs(ctx, id))
			must(t, rt.DeleteJobs(ctx, id))
			if n := b.JobCount(t, id); n != 0 {
				t.Errorf("%d jobs after DeleteJobs", n)
			}
			must(t, rt.DeleteVolume(ctx, id))
		})
	}
}

func fails(code int, text string) []string {
	return []string{fmt.Sprintf("TEST_EXIT=%d", code), "TEST_ERROR=" + text}
}

// testJobFoundAgain is a new leader that finds the job of the one before.
func testJobFoundAgain(t *testing.T, b Fixture) {
	installation, id, ctx := Installation(), newID(), Context(t)
	first := b.New(t, installation)
	must(t, first.Provision(ctx, id))
	spec := jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")
	must(t, first.StartJob(ctx, spec))
	must(t, first.Close())

	second := b.New(t, installation)
	want := workspace.Job{Kind: workspace.JobArchive, OpID: spec.OpID, State: workspace.JobRunning}
	all, err := second.Jobs(ctx)
	must(t, err)
	if len(all) != 1 || len(all[id]) != 1 || all[id][0] != want {
		t.Fatalf("jobs: %+v, want %+v", all, want)
	}
	must(t, second.StartJob(ctx, spec))
	if n := b.JobCount(t, id); n != 1 {
		t.Fatalf("%d jobs after starting the same again", n)
	}
	if containers, err := second.Containers(ctx); err != nil || len(containers) != 0 {
		t.Fatalf("containers: %v, %v, want none: a job is no workspace", containers, err)
	}
	must(t, second.StartJob(ctx, jobSpec(id, workspace.JobRestore)))
	if got := jobs(t, second, id); len(got) != 2 {
		t.Fatalf("jobs: %+v, want two", got)
	}
	must(t, second.DeleteJobs(ctx, id))
	if got := jobs(t, second, id); len(got) != 0 {
		t.Fatalf("jobs after DeleteJobs: %+v", got)
	}
	must(t, second.DeleteVolume(ctx, id))
}

func testJobRefused(t *testing.T, b Fixture) {
	rt, id, ctx := b.New(t, Installation()), newID(), Context(t)
	refused(t, rt.StartJob(ctx, jobSpec(id, workspace.JobRestore)), workspace.ReasonContainerWithoutVolume)
	if b.VolumeExists(t, id) || b.JobCount(t, id) != 0 {
		t.Error("a job without a volume left something")
	}
	endpoint := started(t, rt, id)
	refused(t, rt.StartJob(ctx, jobSpec(id, workspace.JobArchive)), workspace.ReasonActionFailed)
	leave(t, endpoint, 0)
	Eventually(t, "container exited", func() bool { c, _ := look(t, rt, id); return !c.Running })
	refused(t, rt.StartJob(ctx, jobSpec(id, workspace.JobArchive)), workspace.ReasonActionFailed)
	if n := b.JobCount(t, id); n != 0 {
		t.Errorf("%d jobs are left beside a container", n)
	}
	for _, spec := range []backend.JobSpec{
		{ID: id, Kind: "format", OpID: uuid.NewString()},
		{ID: id, Kind: workspace.JobArchive},
		{ID: id, Kind: workspace.JobArchive, OpID: "../x"},
	} {
		if err := rt.StartJob(ctx, spec); err == nil {
			t.Errorf("job %+v was started", spec)
		}
	}
}

func testJobsConcurrently(t *testing.T, b Fixture) {
	installation, id, ctx := Installation(), newID(), Context(t)
	runtimes := []backend.Backend{b.New(t, installation), b.New(t, installation)}
	must(t, runtimes[0].Provision(ctx, id))
	spec := jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")
	errs := make([]error, 4)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { errs[i] = runtimes[i%2].StartJob(ctx, spec) })
	}
	wg.Wait()
	must(t, errors.Join(errs...))
	if got := jobs(t, runtimes[0], id); len(got) != 1 || got[0].State != workspace.JobRunning {
		t.Fatalf("jobs: %+v, want one that runs", got)
	}
}

func testStartRefusedDuringJob(t *testing.T, b Fixture) {
	rt, id, ctx := b.New(t, Installation()), newID(), Context(t)
	must(t, rt.Provision(ctx, id))
	must(t, rt.StartJob(ctx, jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")))
	refused(t, rt.Start(ctx, backend.StartSpec{ID: id}), workspace.ReasonActionFailed)
	if b.ContainerExists(t, id) {
		t.Error("the refused start left a container")
	}
	if got := jobs(t, rt, id); len(got) != 1 || got[0].State != workspace.JobRunning {
		t.Errorf("jobs: %+v, want the one that runs", got)
	}
	must(t, rt.DeleteJobs(ctx, id))
	must(t, rt.StartJob(ctx, jobSpec(id, workspace.JobArchive)))
	ended(t, rt, id)
	must(t, rt.Start(ctx, backend.StartSpec{ID: id})) // a job that has ended is in nobody's way
}

// testStartAgainstJob lets two leaders, one of them deposed, start a container and a
// job at the same time: both together is what must never be.
func testStartAgainstJob(t *testing.T, b Fixture) {
	installation, ctx := Installation(), Context(t)
	one, two := b.New(t, installation), b.New(t, installation)
	for range 3 {
		id := newID()
		must(t, one.Provision(ctx, id))
		var start, job error
		var wg sync.WaitGroup
		wg.Go(func() { start = one.Start(ctx, backend.StartSpec{ID: id}) })
		wg.Go(func() { job = two.StartJob(ctx, jobSpec(id, workspace.JobArchive, "TEST_WAIT=1")) })
		wg.Wait()
		c, _ := look(t, one, id)
		running := 0
		for _, j := range jobs(t, one, id) {
			if j.State == workspace.JobRunning {
				running++
			}
		}
		if c.Running && running > 0 {
			t.Errorf("container and job run at once (Start: %v, StartJob: %v)", start, job)
		}
		if start == nil && !c.Running {
			t.Error("Start succeeded and nothing runs")
		}
		if job == nil && running == 0 {
			t.Error("StartJob succeeded and nothing runs")
		}
		must(t, one.Delete(ctx, id))
		must(t, one.DeleteJobs(ctx, id))
	}
}

// testEnvironmentStaysSecret: a job's environment holds credentials.
func testEnvironmentStaysSecret(t *testing.T, b Fixture) {
	rt, id, ctx := b.New(t, Installation()), newID(), Context(t)
	const secret = "s3cr3t-k3y-of-the-object-store"
	must(t, rt.Provision(ctx, id))
	for _, env := range [][]string{{"=" + secret}, {secret}, {"KEY=" + secret + "\x00"}} {
		err := rt.StartJob(ctx, jobSpec(id, workspace.JobArchive, env...))
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("environment that is none: %v", err)
		}
	}
	must(t, rt.StartJob(ctx, jobSpec(id, workspace.JobArchive, "AWS_SECRET_ACCESS_KEY="+secret, "TEST_SILENT=1", "TEST_EXIT=1")))
	if job := ended(t, rt, id); strings.Contains(fmt.Sprintf("%+v", job), secret) {
		t.Errorf("the job tells: %+v", job)
	}
}
