package reconcile

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/meter"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// progress is how an operation gets on: what was observed of it last, and since when.
type progress struct {
	seen  string
	at    time.Time
	meter *meter.Meter // nil before its job has said anything
}

// addProgress adds how the operation of w gets on, and when it last did. Time in which it
// could not be observed, or in which its image was pulled, does not count against it.
func (l *loop) addProgress(w workspace.Workspace, o *workspace.Observation) {
	if w.Operation == workspace.OpNone {
		delete(l.progress, w.ID)
		return
	}
	var b strings.Builder
	fmt.Fprint(&b, w.Operation, w.OpStartedAt, o.Volume != nil, o.Container != nil)
	if k := o.Container; k != nil && k.Pending != nil {
		fmt.Fprint(&b, k.Pending.Reason) // it has a node now, or its volume
	}
	for _, j := range o.Jobs {
		fmt.Fprint(&b, j.Kind, j.OpID, j.State, j.Progress)
		if j.Pending != nil {
			fmt.Fprint(&b, j.Pending.Reason)
		}
	}
	p := l.progress[w.ID]
	if p.seen != b.String() || o.Unseen != 0 || o.Pull != nil {
		p.seen, p.at = b.String(), time.Now()
	}
	o.ProgressAt = l.clock.Now().Add(-time.Since(p.at)) // a clock that was set does not count
	if line, ok := newestLine(w, o.Jobs); ok {
		if p.meter == nil {
			p.meter = new(meter.Meter)
		}
		p.meter.Add(line, w.Home.Bytes, time.Now())
		o.Progress = p.meter.Progress()
	}
	l.progress[w.ID] = p
}

// addWait moves the last progress by the time that a task has waited for its turn.
func (l *loop) addWait(t task) {
	if p, ok := l.progress[t.row.ID]; ok {
		p.at = p.at.Add(t.waited)
		l.progress[t.row.ID] = p
	}
}

// newestLine returns what the running job of w's operation has said last.
func newestLine(w workspace.Workspace, jobs []workspace.Job) (line contract.Progress, ok bool) {
	opID := w.ArchiveOpID
	if w.Operation == workspace.OpRestoring {
		opID = w.HomeCtx.RestoreOpID
	}
	for _, j := range jobs {
		if j.OpID == opID && j.State == workspace.JobRunning && j.Progress != "" {
			return line, json.Unmarshal([]byte(j.Progress), &line) == nil
		}
	}
	return line, false
}

// The pace of saving progress: at most every progressMin for one workspace, and no more
// than one save per progressShare in all.
const (
	progressMin   = 3 * time.Second
	progressShare = 20 * time.Millisecond
)

// progressEvery is how often the progress of one operation may be saved: the less often,
// the more operations there are.
func (l *loop) progressEvery() time.Duration {
	return max(progressMin, time.Duration(len(l.progress))*progressShare)
}
