package metrics

import "time"

// State is what the other packages report at a scrape.
type State struct {
	// Held is the number of waiting requests, HeldLimit the maximum.
	Held, HeldLimit int64
	// WakeUps is the number of wake-ups in progress, Streams the number of open event streams, and Routes the number of
	// routes in memory.
	WakeUps, Streams, Routes int
	// Confirmed means that PostgreSQL has recently confirmed the routes.
	Confirmed bool
	// Led are the shards that this process leads, with their epochs; Shards is the number of all shards.
	Led    []Term
	Shards int
	// Database and Redis are the pools of connections.
	Database Pool
	Redis    Pool
	// Leader is nil unless this process leads.
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
	// Acquired is how often a connection was taken since the start. Waited is how often a caller had to wait for one,
	// and Wait is the total time of these waits. GivenUp is how often no connection was free in time.
	Acquired, Waited, GivenUp int64
	Wait                      time.Duration
}

// LeaderState is what only the leader knows.
type LeaderState struct {
	// JobsRunning and JobsWaiting are storage jobs that this process handles, JobsLimit how many may run in
	// total.
	JobsRunning, JobsWaiting, JobsLimit int
	// Calls are actuator calls, and Removals those that remove volumes.
	Calls, Removals Queue
	// SetAside is the number of workspaces that trigger a bug of the program.
	SetAside int
	// The following are nil while unknown, and if another process leads shard 0.
	Workspaces *Workspaces
	Disk       *Disk
	Archives   *ArchiveHealth
	Collected  *Collected
}

// Queue counts the running and the waiting entries.
type Queue struct{ Running, Waiting int }

// Workspaces counts workspaces that are not deleted; Phases also includes those that are being deleted.
type Workspaces struct {
	// The keys are phases, operations, reasons of a wait, and reasons of an error.
	Phases, Operations, Waiting, Errors map[string]int64
	// Dozing counts the RUNNING ones that doze.
	Dozing int64
}

// Disk is the disk of the homes, in bytes.
type Disk struct {
	Total, Free int64
	// Pressed means that the disk is fuller than the mark above which room is made, and Full that it is too full to
	// bring more data to it.
	Pressed, Full bool
}

// ArchiveHealth describes the current archives.
type ArchiveHealth struct {
	Current, Damaged, Unverified int64
	Oldest                       time.Duration
}

// Collected holds the findings of the collector's last cycle.
type Collected struct{ Archives, Orphans, Due, Unknown, Newer int }

// one is 1 for true.
func one(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// each exports the number for each value of the label. It adds the numbers of the unknown values, and exports their sum
// as one value.
func each(l Label, numbers map[string]int64, tell tell) {
	sums := make([]int64, len(l.Values))
	for value, n := range numbers {
		sums[l.index(value)] += n
	}
	for i, n := range sums {
		tell(float64(n), l.Values[i])
	}
}
