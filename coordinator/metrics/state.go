package metrics

import "time"

// State is what the rooms know of themselves at a scrape.
type State struct {
	// Held requests wait, of HeldLimit that may.
	Held, HeldLimit int64
	// WakeUps are in progress, Streams of events are open, and Routes are in memory.
	WakeUps, Streams, Routes int
	// Confirmed says that PostgreSQL has confirmed the routes lately.
	Confirmed bool
	// Led are the shards that this process leads, with their epochs, of the Shards that there are.
	Led    []Term
	Shards int
	// Database and Redis are the pools of connections.
	Database Pool
	Redis    Pool
	// Leader is nil where this process does not lead.
	Leader *LeaderState
}

// Term is one term as the leader of a shard.
type Term struct {
	Shard int
	Epoch int64
}

// Pool is a pool of connections.
type Pool struct {
	InUse, Idle, Limit int
	// Acquired is how often one was taken since the start, Waited how often that had to wait, and
	// Wait for how long in all. GivenUp is how often there was none in time.
	Acquired, Waited, GivenUp int64
	Wait                      time.Duration
}

// LeaderState is what only the leader knows.
type LeaderState struct {
	// JobsRunning and JobsWaiting are storage jobs that this process has a part in, JobsLimit how many
	// may run in all.
	JobsRunning, JobsWaiting, JobsLimit int
	// Calls are actuator calls, and Removals those that remove volumes.
	Calls, Removals Queue
	// SetAside are workspaces that the program fails with.
	SetAside int
	// What follows is nil where it is not known, and where another process leads shard 0.
	Workspaces *Workspaces
	Disk       *Disk
	Archives   *ArchiveHealth
	Collected  *Collected
}

// Queue is what runs and what waits for its turn.
type Queue struct{ Running, Waiting int }

// Workspaces count workspaces that are not deleted, and Phases also those that are being deleted.
type Workspaces struct {
	// The keys are phases, operations, reasons of a wait, and reasons of an error.
	Phases, Operations, Waiting, Errors map[string]int64
	// Dozing are RUNNING and doze.
	Dozing int64
}

// Disk is that of the homes, in bytes.
type Disk struct {
	Total, Free int64
	// Pressed says that the mark is passed from which on room is made, Full that nothing is brought
	// to the disk.
	Pressed, Full bool
}

// ArchiveHealth is how well the current archives are.
type ArchiveHealth struct {
	Current, Damaged, Unverified int64
	Oldest                       time.Duration
}

// Collected is what the last cycle of the collector has found.
type Collected struct{ Archives, Orphans, Due, Unknown, Newer int }

// one is 1 for true.
func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// each tells the number of each value of the label, and together those that it does not have.
func each(l Label, numbers map[string]int64, tell tell) {
	sums := make([]int64, len(l.Values))
	for value, n := range numbers {
		sums[l.index(value)] += n
	}
	for i, n := range sums {
		tell(float64(n), l.Values[i])
	}
}
