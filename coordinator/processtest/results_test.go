package processtest

import (
	"fmt"
	"syscall"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestAJobsResultIsLost: a storage job has done its work, and is removed before the leader has read its result. The
// next leader's job finds the finished work in the volume or in the store. Nobody has to decide anything (SPEC 12.12).
func TestAJobsResultIsLost(t *testing.T) {
	t.Parallel()
	in := install(t)
	proxy := faulty.NewStore(t, in.bucket.Endpoint)
	behind := func(c *processConfig) { c.Archive.JobEndpoint = proxy.URL() }
	leader := in.process(t, "first", behind)
	h := in.create(t)
	h.await(t, workspace.PhaseRunning)
	h.write(t, "one")
	h.exec(t, nil, "dd if=/dev/urandom of=/home/coder/big bs=1M count=8 2>/dev/null")
	lose := func(kind string, to workspace.DesiredState) {
		t.Helper()
		proxy.Hold(1 << 20) // what a restore reads, and what an archive reads back
		defer proxy.Release()
		h.want(t, to)
		var job inspect.Container
		state := func(want string) func() error {
			return func() error {
				all, err := h.engine.Containers(t.Context(), string(h.id))
				if err != nil {
					return err
				}
				for _, c := range all {
					if c.Kind == inspect.Job && c.Job == kind && c.State == want {
						job = c
						return nil
					}
				}
				return fmt.Errorf("%+v", all)
			}
		}
		wait.For(t, "the "+kind+" job runs", state(inspect.Running))
		leader.signal(t, syscall.SIGKILL)
		wait.Until(t, "the leader is dead", leader.dead)
		proxy.Release()
		wait.For(t, "the "+kind+" job has ended", state(inspect.Exited))
		wait.For(t, "the "+kind+" job is removed", func() error { return h.engine.RemoveJob(t.Context(), job) })
		leader = in.process(t, fmt.Sprintf("after-%s-%d", kind, len(h.content)), behind)
	}
	for range 2 { // the second time, the home is what a restore has left
		lose("archive", workspace.DesiredArchived)
		h.await(t, workspace.PhaseArchived)
		lose("restore", workspace.DesiredRunning)
		h.await(t, workspace.PhaseRunning)
		h.check(t)
		h.write(t, fmt.Sprint("after-", len(h.content)))
	}
	h.want(t, workspace.DesiredArchived)
	h.await(t, workspace.PhaseArchived)
	h.run(t)
	h.check(t)
}
