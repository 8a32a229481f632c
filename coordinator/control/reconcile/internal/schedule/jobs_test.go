package schedule

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// ids are workspaces of the shards 0 and 1 of two.
func ids(n int) (all []workspace.ID) {
	for i := range n {
		all = append(all, workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-%012x", i)))
	}
	return all
}

// desk is a [Jobs] that records which workspaces were told to request a place again.
type desk struct {
	*Jobs
	again map[workspace.ID]int
}

func newDesk(limit int) *desk {
	return &desk{NewJobs(func() int { return limit }), make(map[workspace.ID]int)}
}

func (d *desk) wants(id workspace.ID, c Class, waited time.Duration) JobRequest {
	return JobRequest{ID: id, Request: Request{Owner: "ann", Class: c, Since: noon.Add(-waited)}, Again: func() { d.again[id]++ }}
}

// running returns a listing in which each of these workspaces has a running job.
func running(all ...workspace.ID) map[workspace.ID][]workspace.Job {
	out := make(map[workspace.ID][]workspace.Job)
	for _, id := range all {
		out[id] = []workspace.Job{{Kind: workspace.JobArchive, State: workspace.JobRunning}}
	}
	return out
}

var alone = Share{1, 1}

// TestWhatRunsCounts: the jobs of a former leader and of other processes count because they are listed. A job that has
// ended does not count, and no job counts twice.
func TestWhatRunsCounts(t *testing.T) {
	id := ids(6)
	d := newDesk(3) // two archives
	listed := running(id[4])
	listed[id[5]] = []workspace.Job{{Kind: workspace.JobArchive, State: workspace.JobSucceeded}}
	queued := d.Ask(noon, alone, listed, d.wants(id[0], Background, 3*time.Second), d.wants(id[1], Background, 2*time.Second), d.wants(id[2], Background, time.Second))
	if !maps.Equal(queued, map[workspace.ID]int{id[1]: 0, id[2]: 1}) {
		t.Errorf("queued are %v", queued)
	}
	d.Hold(id[0], Request{Owner: "ann", Class: Normal})
	if queued = d.Ask(noon, alone, running(id[0]), d.wants(id[1], Background, 2*time.Second)); len(queued) != 0 {
		t.Errorf("the job that was given its place counts twice: %v", queued)
	}
	if queued = d.Ask(noon, alone, nil, d.wants(id[3], Interactive, 0)); !d.Holds(id[0]) || d.Holds(id[3]) || !maps.Equal(queued, map[workspace.ID]int{id[3]: 0}) {
		t.Errorf("without a listing: %v", queued)
	}
}

// TestWhoeverIsNextAsksAgain: when a place becomes free, the next workspace in the queue is told to request it. If that
// workspace no longer wants the place, the one after it is told. Meanwhile no other workspace takes the place.
func TestWhoeverIsNextAsksAgain(t *testing.T) {
	id := ids(4)
	d := newDesk(1)
	for i, want := range []int{0, 0, 1} {
		if queued := d.Ask(noon, alone, running(), d.wants(id[i], Background, time.Duration(3-i)*time.Second)); queued[id[i]] != want {
			t.Fatalf("%d: %v", i, queued)
		}
	}
	d.Leave(id[0])
	if !maps.Equal(d.again, map[workspace.ID]int{id[1]: 1}) {
		t.Fatalf("again: %v", d.again)
	}
	if queued := d.Ask(noon, alone, running(), d.wants(id[3], Background, 0)); queued[id[3]] != 1 || d.again[id[1]] != 2 {
		t.Errorf("one that came later: %v", queued)
	}
	d.Leave(id[1]) // it wants something else now
	if d.again[id[2]] != 1 {
		t.Errorf("again: %v", d.again)
	}
	d.Drop(0, 2) // those are id[0] and id[2]
	if d.again[id[3]] != 1 {
		t.Errorf("after the end of a term: %v", d.again)
	}
	d.Leave(id[0]) // not in the queue
	if d.again[id[3]] != 1 {
		t.Error("asked again for nothing")
	}
}

// TestShares: processes that look at the same moment share the free places, even if there is less than one place for
// each.
func TestShares(t *testing.T) {
	for _, c := range []struct{ own, all, free, want int }{
		{1, 1, 4, 4}, {2, 4, 4, 2}, {1, 4, 4, 1}, {1, 4, 1, 1}, {3, 4, 3, 3}, {1, 3, 0, 0}, {4, 4, 3, 3}, {1, 2, -1, -1},
	} {
		if got := (Share{c.own, c.all}).of(c.free); got != c.want {
			t.Errorf("%d of %d shards take %d of %d, want %d", c.own, c.all, got, c.free, c.want)
		}
	}
	id := ids(6)
	d := newDesk(5)
	var all []JobRequest
	for _, id := range id {
		all = append(all, d.wants(id, Background, 0))
	}
	queued := d.Ask(noon, Share{1, 2}, running(), all...)
	if left := slices.Collect(maps.Values(queued)); len(left) != 3 {
		t.Errorf("%d of 6 wait, want 3", len(left))
	}
}
