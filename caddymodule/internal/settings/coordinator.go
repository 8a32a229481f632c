package settings

import (
	"fmt"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Coordinator is the intervals and limits of the background work.
type Coordinator struct {
	// NodeID names this process among those that share the database. Default: the
	// host's name.
	NodeID Value `json:"node_id,omitempty"`
	// LockID is the number of the advisory lock in PostgreSQL that makes one process
	// the leader. All processes of an installation use the same. Default: 12345.
	LockID Value `json:"lock_id,omitempty"`
	// Shards is into how many parts the workspaces are divided. Each has a leader of its
	// own, so several processes share the work. All processes of an installation should
	// have the same number: while they differ, only those with the smallest lead. A reload
	// that changes it is refused; restart the processes, one after the other. Default: 1.
	Shards Value `json:"shards,omitempty"`
	// RetryInterval is how often a process that does not lead tries to become the leader.
	// Default: 5s.
	RetryInterval Value `json:"retry_interval,omitempty"`
	// IdleInterval is the time between two observations of all workspaces while nothing
	// happens. Default: 15s.
	IdleInterval Value `json:"idle_interval,omitempty"`
	// ActiveInterval is the same while an operation is in progress. Default: 1s.
	ActiveInterval Value `json:"active_interval,omitempty"`
	// TTLInterval is the time between two searches for expired workspaces. Default: 60s.
	TTLInterval Value `json:"ttl_interval,omitempty"`
	// GCInterval is the time between two garbage collections of archives. Default: 4h.
	GCInterval Value `json:"gc_interval,omitempty"`
	// GCDelay is how long an archive that no workspace needs is kept after it was first
	// seen. Those of deleted workspaces are kept for undelete_for, too. Default: 2h.
	GCDelay Value `json:"gc_delay,omitempty"`
	// UndeleteFor is how long a deleted workspace can be restored, counted from its deletion: its
	// archives stay for that long, and a volume that could not be archived does. With a longer
	// gc_delay, that counts. Default: 7d.
	UndeleteFor Value `json:"undelete_for,omitempty"`
	// KeepArchives is how many archives of each workspace are kept, the current one among
	// them: the last ones by their dates, 1 to 1000. With fewer than before, the rest is
	// removed after gc_delay. Default: 1.
	KeepArchives Value `json:"keep_archives,omitempty"`
	// Scrub is how much of the archives is read back in a day, to find damage before they
	// are needed, such as `20GiB`; 0 reads nothing back. Default: 20GiB.
	Scrub Value `json:"scrub,omitempty"`
	// PrepullInterval is how often Docker is asked whether it has the images of `images`, of
	// storage jobs and of the workspaces that sleep on its disk. One that is missing is
	// pulled before somebody waits for it, one at a time; 0 pulls nothing ahead. On Kubernetes
	// the nodes pull images when something starts. Default: 10m.
	PrepullInterval Value `json:"prepull_interval,omitempty"`
	// MaxConcurrent is how many actions on containers, volumes and archives may run
	// at the same time. Default: 10.
	MaxConcurrent Value `json:"max_concurrent,omitempty"`
	// MaxJobs is how many storage jobs may run at the same time, in the whole installation:
	// what archives and restores homes. With more than one, one place is kept for what a person
	// waits for. Each takes up to `job_memory` (512MiB), and on Docker all use one disk.
	// Processes that share the work (shards) may exceed it by a few for a moment. Default: 4.
	MaxJobs Value `json:"max_jobs,omitempty"`
	// MaxRetry is how many times in a row an operation may fail before the workspace is
	// in ERROR. Default: 3.
	MaxRetry Value `json:"max_retry,omitempty"`
	// MaxLossShare is the largest share of at least 4 workspaces that may be found to have
	// lost their files at once, above 0 and at most 1. A larger share looks like a
	// container engine or an object store that is not the right one: none of them changes
	// its state then. Default: 0.5.
	MaxLossShare Value `json:"max_loss_share,omitempty"`
}

// coordinatorTable lists the settings of the background work; see [App.Table]. Those that can
// change while the process runs have their defaults in r.
func (a *App) coordinatorTable(r *Resolved, option, change func(string) parse.Check) []Setting {
	c, o, live := &a.Coordinator, &r.Options, &r.Live
	duration := func(name string, text *Value, dst *time.Duration, min time.Duration) Setting {
		return Setting{"coordinator " + name, text, dst.String(), "", parse.Duration(dst, min)}
	}
	interval := func(name string, text *Value, dst *time.Duration) Setting {
		return duration(name, text, dst, shortestInterval)
	}
	number := func(name string, text *Value, dst *int) Setting {
		return Setting{"coordinator " + name, text, fmt.Sprint(*dst), "", parse.Integer(dst, change(name))}
	}
	share := func(name string, text *Value, dst *float64) Setting {
		return Setting{"coordinator " + name, text, fmt.Sprint(*dst), "", parse.Fraction(dst, change(name))}
	}
	work, gc := &live.Reconcile, &live.GC
	return []Setting{
		{"coordinator node_id", &c.NodeID, "", "", parse.Text(&o.NodeID)},
		{"coordinator lock_id", &c.LockID, fmt.Sprint(o.LockID), "", parse.Integer(&o.LockID, notZero(&o.LockID))},
		{"coordinator shards", &c.Shards, fmt.Sprint(o.Shards), "",
			parse.Integer(&o.Shards, notZero(&o.Shards), option("shards"))},
		interval("retry_interval", &c.RetryInterval, &live.Leader.RetryInterval),
		interval("idle_interval", &c.IdleInterval, &work.IdleInterval),
		interval("active_interval", &c.ActiveInterval, &work.ActiveInterval),
		interval("ttl_interval", &c.TTLInterval, &live.TTL.Interval),
		interval("gc_interval", &c.GCInterval, &gc.Interval),
		interval("gc_delay", &c.GCDelay, &gc.Delay),
		interval("undelete_for", &c.UndeleteFor, &gc.UndeleteFor),
		number("keep_archives", &c.KeepArchives, &gc.Keep),
		{"coordinator scrub", &c.Scrub, "20GiB", "", parse.Size(&live.Scrub.BytesPerDay, change("scrub"))},
		duration("prepull_interval", &c.PrepullInterval, &work.PrepullInterval, 0),
		number("max_concurrent", &c.MaxConcurrent, &work.MaxConcurrent),
		number("max_jobs", &c.MaxJobs, &work.MaxJobs),
		number("max_retry", &c.MaxRetry, &work.MaxRetry),
		share("max_loss_share", &c.MaxLossShare, &work.MaxLossShare),
	}
}
