package reconcile_test

import (
	"context"
	"encoding/json"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// saves records the saved progress.
type saves struct {
	reconcile.Store
	mu    sync.Mutex
	steps []string
}

func (s *saves) Save(ctx context.Context, f postgres.Fence, prev, next workspace.Workspace, a *workspace.ArchiveRecord) (bool, error) {
	if p := next.Progress; p != nil && p != prev.Progress {
		s.mu.Lock()
		s.steps = append(s.steps, p.Step)
		s.mu.Unlock()
	}
	return s.Store.Save(ctx, f, prev, next, a)
}

func (s *saves) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.steps)
}

// TestEveryLookAtARestoreMaySave: people see its progress every second.
func TestEveryLookAtARestoreMaySave(t *testing.T) {
	if every := reconcile.DefaultSettings().ActiveInterval; every > time.Second || reconcile.RestoreMin >= every {
		t.Errorf("a restore is looked at every %s, and saved after %s", every, reconcile.RestoreMin)
	}
}

// TestProgressOfAJob: the progress of a job is saved soon, but not at every look. It is removed when the operation
// ends.
func TestProgressOfAJob(t *testing.T) {
	h := newHarness(t)
	s := &saves{Store: h.store}
	h.database = s
	h.use(h.archives, h.log(), nil)
	work, lines, end := h.backend.Work, make(chan contract.ProgressLine), make(chan struct{})
	h.backend.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) {
		if spec.Kind != workspace.JobRestore {
			return work(ctx, spec)
		}
		for {
			select {
			case line := <-lines:
				text, err := json.Marshal(line)
				if err != nil {
					return 0, err
				}
				h.backend.Report(spec, string(text))
			case <-end:
				return work(ctx, spec)
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
	}
	h.lead()
	id := h.create()
	h.reach(id, workspace.DesiredArchived, workspace.PhaseArchived)
	before := s.count()

	h.setDesired(id, workspace.DesiredRunning)
	line := contract.ProgressLine{Event: contract.EventProgress, Step: contract.StepUnpack, Bytes: 20, Files: 2, Transferred: 10, Total: 100}
	began := time.Now()
	lines <- line
	w := h.await(id, "progress", func(w workspace.Workspace) bool { return w.Progress != nil })
	if p := w.Progress; w.Operation != workspace.OpRestoring || p.Step != contract.StepUnpack || p.Done != 10 || p.Total != 100 || p.Bytes != 20 || p.Files != 2 || p.At.IsZero() {
		t.Errorf("%s with %+v", w.Operation, p)
	}

	var looks atomic.Int32
	h.guard.looked.Store(&looks)
	for line.Transferred = 11; line.Transferred < 16; line.Transferred++ {
		from := looks.Load()
		lines <- line
		wait.Until(t, "it was observed", func() bool { return looks.Load() > from+1 })
	}
	if n, most := s.count()-before, 1+int(time.Since(began)/reconcile.RestoreMin); n < 1 || n > most {
		t.Errorf("progress was saved %d times within %s, want at most %d", n, time.Since(began), most)
	}

	lines <- contract.ProgressLine{Event: contract.EventProgress, Step: contract.StepSwap, Transferred: 100, Total: 100}
	h.await(id, "the next step", func(w workspace.Workspace) bool {
		return w.Progress != nil && w.Progress.Step == contract.StepSwap && w.Progress.Total == 0
	})
	close(end)
	if w := h.settles(id, workspace.PhaseRunning); w.Progress != nil {
		t.Errorf("still %+v", w.Progress)
	}
}
