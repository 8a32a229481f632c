package schedule

import (
	"maps"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// JobMaxWait is how long restores can go ahead of a waiting archive. After that, one archive goes first. A restore
// takes seconds to minutes.
const JobMaxWait = 10 * time.Minute

// Jobs gives storage jobs their places (SPEC 7). It knows which workspaces hold a place or wait for one, for all loops
// of the process. Which jobs run it learns from each listing. So a new leader takes over the jobs that it finds, and
// the jobs of other processes count. It is safe for concurrent use.
type Jobs struct {
	limit func() int

	mu      sync.Mutex                  // guards what follows
	held    map[workspace.ID]Request    // whose jobs run, or will, as the loops have seen
	waiting map[workspace.ID]JobRequest // that have asked for a place, and not for something else since
	served  Served
	asked   time.Time // when a place was last requested, by the clock of the requests
}

// NewJobs returns an empty queue. limit is how many jobs may run now.
func NewJobs(limit func() int) *Jobs {
	return &Jobs{limit: limit, held: make(map[workspace.ID]Request), waiting: make(map[workspace.ID]JobRequest)}
}

// JobRequest is a request for a place for a workspace's job.
type JobRequest struct {
	ID workspace.ID
	Request
	// Again is called when it may be the workspace's turn. The workspace must then request a place again. It must not
	// block.
	Again func()
}

// Share is a process's part of the workspaces: Own of All shards.
type Share struct{ Own, All int }

// of returns how many of the free places the process may take, so that processes that look at the same moment do not
// all take the same places. The processes can still exceed the limit, because a listing may not show yet the jobs that
// another process has begun. Also, each process may take the last free place. Only a lock around each start would
// prevent that, and it is not worth that, because nothing depends on the limit but comfort.
func (s Share) of(free int) int {
	if free <= 0 || s.Own >= s.All {
		return free
	}
	return (free*s.Own + s.All - 1) / s.All
}

// Ask requests places. It gives places to the workspaces whose jobs may begin now, and returns for the others how many
// are ahead of them. A workspace that gets a place holds it until [Jobs.Leave]. listed are all jobs of the
// installation, as they were listed just now. If they could not be listed, listed is nil, and no workspace gets a
// place.
func (j *Jobs) Ask(now time.Time, share Share, listed map[workspace.ID][]workspace.Job, requests ...JobRequest) (
	queued map[workspace.ID]int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked = now
	asks := make(map[workspace.ID]struct{}, len(requests))
	for _, a := range requests {
		asks[a.ID] = struct{}{}
		j.waiting[a.ID] = a
	}
	q, ids := j.queue(listed)
	if listed != nil {
		q.Free = share.of(q.Limit - len(q.Running))
	}
	begin, rest := q.Next(now)
	for _, i := range begin {
		id, r := ids[i], q.Waiting[i]
		if _, here := asks[id]; !here {
			j.waiting[id].Again() // no other one gets its place meanwhile
			continue
		}
		j.served.Note(r, now)
		j.held[id] = r
		delete(j.waiting, id)
	}
	if len(j.waiting) == 0 {
		j.served.owners = nil // no owner competes with another
	}
	queued = make(map[workspace.ID]int)
	for before, i := range rest {
		if _, here := asks[ids[i]]; here {
			queued[ids[i]] = before
		}
	}
	return queued
}

// queue returns the running and the waiting jobs; ids are the workspaces of the waiting ones.
func (j *Jobs) queue(listed map[workspace.ID][]workspace.Job) (q Queue, ids []workspace.ID) {
	q = Queue{Limit: j.limit(), MaxWait: JobMaxWait, Served: j.served}
	for _, r := range j.held {
		q.Running = append(q.Running, r)
	}
	for id, jobs := range listed {
		if _, counted := j.held[id]; counted {
			continue
		}
		if running := Running(jobs); running != nil {
			q.Running = append(q.Running, Request{Class: ClassOf(running.Kind)})
		}
	}
	for id, a := range j.waiting {
		ids = append(ids, id)
		r := a.Request
		r.Key = string(id)
		q.Waiting = append(q.Waiting, r)
	}
	return q, ids
}

// Running returns the job that runs, or nil. A job that has ended but was not removed yet holds no place.
func Running(jobs []workspace.Job) *workspace.Job {
	for i := range jobs {
		if jobs[i].State == workspace.JobRunning {
			return &jobs[i]
		}
	}
	return nil
}

// ClassOf returns the class of a job of which only the kind is known.
func ClassOf(kind workspace.JobKind) Class {
	if kind == workspace.JobRestore {
		return Interactive
	}
	return Background
}

// Holds reports whether the workspace has a place already, so that it need not request one.
func (j *Jobs) Holds(id workspace.ID) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, holds := j.held[id]
	return holds
}

// Len returns how many workspaces hold a place and how many wait for one.
func (j *Jobs) Len() Length {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Length{len(j.held), len(j.waiting)}
}

// Hold records that a job of the workspace runs, and so holds a place.
func (j *Jobs) Hold(id workspace.ID, r Request) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held[id] = r
	delete(j.waiting, id)
}

// Leave gives back the place of a workspace, or removes the workspace from the queue. The workspaces that are next ask
// again.
func (j *Jobs) Leave(id workspace.ID) {
	j.mu.Lock()
	_, held := j.held[id]
	_, waits := j.waiting[id]
	delete(j.held, id)
	delete(j.waiting, id)
	j.mu.Unlock()
	if held || waits {
		j.Next()
	}
}

// Drop does the same as Leave for all workspaces of a shard whose term is over.
func (j *Jobs) Drop(shard, shards int) {
	j.mu.Lock()
	maps.DeleteFunc(j.held, func(id workspace.ID, _ Request) bool { return id.Shard(shards) == shard })
	maps.DeleteFunc(j.waiting, func(id workspace.ID, _ JobRequest) bool { return id.Shard(shards) == shard })
	j.mu.Unlock()
	j.Next()
}

// Next makes the workspaces that are next ask again.
func (j *Jobs) Next() {
	j.mu.Lock()
	defer j.mu.Unlock()
	q, ids := j.queue(nil)
	q.Free = q.Limit - len(q.Running)
	begin, _ := q.Next(j.asked)
	for _, i := range begin {
		j.waiting[ids[i]].Again()
	}
}
