package processtest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// awaitWaiting returns when the workspace reports that reason to wait.
func (h *home) awaitWaiting(t testing.TB, reasons ...string) {
	t.Helper()
	wait.For(t, fmt.Sprintf("the workspace waits for %v", reasons), func() error {
		w := h.row(t)
		if w.Phase == workspace.PhaseError {
			t.Fatalf("the workspace is in ERROR: %s: %s", w.ErrorReason, w.ErrorMessage)
		}
		for _, r := range reasons {
			if w.Waiting != nil && w.Waiting.Reason == r && w.Waiting.Message != "" {
				return nil
			}
		}
		return fmt.Errorf("it is %s, %s, and waits for %+v", w.Phase, w.Operation, w.Waiting)
	})
}

// behindProxy returns a running workspace with a file, and a proxy in front of the object store. use enters the proxy's
// URL into the configuration, either for the process or for its jobs.
func behindProxy(t testing.TB, use func(c *processConfig, url string)) (*home, *faulty.Store) {
	t.Helper()
	in := install(t)
	proxy := faulty.NewStore(t, in.bucket.Endpoint)
	in.process(t, "only", func(c *processConfig) { use(c, proxy.URL()) })
	h := in.create(t)
	h.await(t, workspace.PhaseRunning)
	h.write(t, "one")
	return h, proxy
}

// TestStoreFails: while the object store fails in any way, a workspace that should be archived can still be opened, and
// an archived workspace waits. Both say why, and nothing ends in ERROR. Everything continues by itself when the store
// is back.
func TestStoreFails(t *testing.T) {
	t.Parallel()
	for _, f := range []faulty.Fault{faulty.Fails, faulty.Silent, faulty.Gone} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			h, proxy := behindProxy(t, func(c *processConfig, url string) { c.Archive.Endpoint = url })

			proxy.Set(f)
			h.want(t, workspace.DesiredArchived)
			h.awaitWaiting(t, "StoreAway")
			if w := h.row(t); w.Phase != workspace.PhaseStandby || w.Operation != workspace.OpNone {
				t.Errorf("while the store is away the workspace is %s, %s", w.Phase, w.Operation)
			}
			h.run(t) // its owner opens it meanwhile
			h.check(t)
			h.write(t, "two")

			proxy.Set(faulty.Healthy)
			h.want(t, workspace.DesiredArchived)
			h.await(t, workspace.PhaseArchived)

			proxy.Set(f)
			h.want(t, workspace.DesiredRunning)
			h.awaitWaiting(t, "StoreAway")
			proxy.Set(faulty.Healthy)
			h.await(t, workspace.PhaseRunning)
			h.check(t)
		})
	}
}

// TestStoreFailsDuringTheJob: the store goes away while a job uploads. The operation is given up without any loss. The
// archive is made when the store is back.
func TestStoreFailsDuringTheJob(t *testing.T) {
	t.Parallel()
	h, proxy := behindProxy(t, func(c *processConfig, url string) { c.Archive.Endpoint = url })
	h.exec(t, nil, "dd if=/dev/urandom of=/home/coder/big bs=1M count=64 2>/dev/null")
	proxy.Hold(1 << 20) // the job reads what it has sent: it cannot be done before the store fails
	h.want(t, workspace.DesiredArchived)
	wait.Until(t, "the archive operation runs", func() bool { return h.row(t).Operation == workspace.OpArchiving })
	proxy.Set(faulty.Fails)
	proxy.Release()
	h.awaitWaiting(t, "StoreAway", "ArchiveFailed")
	h.run(t)
	h.check(t)
	proxy.Set(faulty.Healthy)
	h.want(t, workspace.DesiredArchived)
	h.await(t, workspace.PhaseArchived)
	h.run(t)
	h.check(t)
}

// TestStoreAwayDuringDeletion: the volume of a deleted workspace stays until its files
// are archived, and the deletion can be undone meanwhile.
func TestStoreAwayDuringDeletion(t *testing.T) {
	t.Parallel()
	h, proxy := behindProxy(t, func(c *processConfig, url string) {
		c.Archive.Endpoint = url
		c.GCDelay, c.GCInterval = time.Hour, time.Hour
	})
	proxy.Set(faulty.Gone)
	wait.For(t, "the workspace is deleted", func() error { return h.service.Delete(t.Context(), h.owner, h.id, false) })
	h.awaitWaiting(t, "StoreAway", "KeptUntilDeleted")
	wait.For(t, "the deletion is undone", func() error { _, err := h.service.Undelete(t.Context(), h.owner, h.id); return err })
	h.run(t)
	h.check(t)
}

// TestStoreAnswersWithWrongBytes: an archive that arrives damaged is never restored. If the answer's checksum shows
// the damage, the workspace waits for a better answer, and continues by itself. Otherwise it ends in ERROR, and a
// recovery tries again. Both name the problem.
func TestStoreAnswersWithWrongBytes(t *testing.T) {
	t.Parallel()
	h, proxy := behindProxy(t, func(c *processConfig, url string) { c.Archive.JobEndpoint = url })
	h.want(t, workspace.DesiredArchived)
	h.await(t, workspace.PhaseArchived)
	proxy.Set(faulty.WrongBytes)
	h.want(t, workspace.DesiredRunning)
	failed := false
	wait.Until(t, "the damage is told", func() bool {
		w := h.row(t)
		failed = w.Phase == workspace.PhaseError && w.ErrorReason == workspace.ReasonArchiveCorrupted && w.ErrorMessage != ""
		return failed || w.Waiting != nil && strings.Contains(w.Waiting.Message, "checksum")
	})
	proxy.Set(faulty.Healthy)
	if failed {
		h.recover(t, service.Choice{Kind: workspace.RecoverArchive, Key: h.row(t).ArchiveKey, ReplaceVolume: true})
	}
	h.await(t, workspace.PhaseRunning)
	h.check(t)
}
