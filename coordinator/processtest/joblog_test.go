package processtest

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestAJobsLogCannotBeRead: storage jobs have done their work, but the cluster does not return their logs. The node of
// one job is away, and another job was removed. For each of these jobs, the leader waits, reports why, and finally runs
// the job again by itself. It counts no failure. Other workspaces are not affected meanwhile.
func TestAJobsLogCannotBeRead(t *testing.T) {
	t.Parallel()
	if !devenv.OnKubernetes() {
		t.Skip("Docker's engine reads the logs itself")
	}
	in := install(t)
	proxy := faulty.NewCluster(t, in.config.Kubernetes.Kubeconfig)
	in.process(t, "only", func(c *processConfig) {
		on := *c.Kubernetes
		on.Kubeconfig = proxy.Kubeconfig
		c.Kubernetes = &on
	})
	other, faults := in.create(t), map[string]*fault{"away": {status: 500, reason: metav1.StatusReasonInternalError}, "removed": {status: 404, reason: metav1.StatusReasonNotFound}}
	for name, f := range faults {
		f.home = in.create(t)
		f.await(t, workspace.PhaseRunning)
		f.write(t, name)
		proxy.Refuse(f.status, f.reason, f.such)
		f.refuse.Store(true)
		f.want(t, workspace.DesiredArchived)
	}
	other.await(t, workspace.PhaseRunning)
	other.write(t, "other")
	for _, f := range faults {
		f.awaitWaiting(t, workspace.WaitBackendAway)
		if w := f.row(t).Waiting; w == nil || !strings.Contains(w.Message, "refused by the test") {
			t.Errorf("it waits for %+v", w)
		}
		f.job = f.onlyJob(t)
	}
	other.want(t, workspace.DesiredArchived)
	other.await(t, workspace.PhaseArchived)
	other.want(t, workspace.DesiredRunning)
	other.await(t, workspace.PhaseRunning)
	other.check(t)
	for name, f := range faults {
		wait.For(t, "the job is removed whose log is "+name, func() error {
			if all := f.jobs(t); len(all) > 0 && all[0].ID == f.job.ID {
				return fmt.Errorf("%+v, waits for %+v", all, f.row(t).Waiting)
			}
			return nil
		})
		f.refuse.Store(false)
	}
	for _, f := range faults {
		f.await(t, workspace.PhaseArchived)
		f.want(t, workspace.DesiredRunning)
		f.await(t, workspace.PhaseRunning)
		f.check(t)
		if w := f.row(t); w.ErrorCount != 0 || w.HomeCtx.Unread != 0 {
			t.Errorf("it runs after %d failures and %d lost results", w.ErrorCount, w.HomeCtx.Unread)
		}
	}
	if n := storetest.Value[int](t, in.store, `SELECT count(*)::int FROM workspace_history WHERE kind = 'error' OR new_value = 'ERROR'`); n != 0 {
		t.Errorf("their history has %d errors", n)
	}
}

// fault is a workspace whose jobs' logs cannot be read. job is the first of these jobs.
type fault struct {
	*home
	status int
	reason metav1.StatusReason
	refuse atomic.Bool
	job    inspect.Container
}

// such reports whether the request asks for the log of one of the workspace's storage jobs.
func (f *fault) such(r *http.Request) bool {
	return f.refuse.Load() && strings.HasSuffix(r.URL.Path, "/log") && strings.Contains(r.URL.Path, "/"+f.id.ContainerName()+"-")
}

// jobs are the workspace's storage jobs.
func (h *home) jobs(t *testing.T) (jobs []inspect.Container) {
	t.Helper()
	all, err := h.engine.Containers(t.Context(), string(h.id))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		if c.Kind == inspect.Job {
			jobs = append(jobs, c)
		}
	}
	return jobs
}

// onlyJob is the workspace's storage job, which must be the only one.
func (h *home) onlyJob(t *testing.T) inspect.Container {
	t.Helper()
	jobs := h.jobs(t)
	if len(jobs) != 1 {
		t.Fatalf("jobs: %+v, want one", jobs)
	}
	return jobs[0]
}
