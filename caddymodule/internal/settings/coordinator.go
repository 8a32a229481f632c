package settings

import (
	"fmt"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Coordinator holds the intervals and limits of the background work.
type Coordinator struct {
	// NodeID names this process among those that share the database. Default: the
	// host's name.
	NodeID Value `json:"node_id,omitempty"`
	// LockID is the number of the advisory lock in PostgreSQL that makes one process the leader.
	// All processes of an installation must use the same number. Default: 12345.
	LockID Value `json:"lock_id,omitempty"`
	// Shards is the number of parts into which the workspaces are divided. Each has its own leader,
	// so several processes share the work. All processes of an installation should use the same
	// number: while they differ, only those with the smallest number lead. A reload that changes it
	// is refused; restart the processes one by one. Default: 1.
	Shards Value `json:"shards,omitempty"`
	// RetryInterval is how often a follower tries to become the leader. Default: 5s.
	RetryInterval Value `json:"retry_interval,omitempty"`
	// IdleInterval is the time between observations of all workspaces while no operation is in
	// progress. Default: 15s.
	IdleInterval Value `json:"idle_interval,omitempty"`
	// ActiveInterval is the same while an operation is in progress. Default: 1s.
	ActiveInterval Value `json:"active_interval,omitempty"`
	// TTLInterval is the time between searches for expired workspaces. Default: 60s.
	TTLInterval Value `json:"ttl_interval,omitempty"`
	// GCInterval is the time between garbage collections of archives. Default: 4h.
	GCInterval Value `json:"gc_interval,omitempty"`
	// GCDelay is how long an archive is kept after the garbage collector first finds that no
	// workspace needs it. Archives of deleted workspaces are also kept for undelete_for. Default:
	// 2h.
	GCDelay Value `json:"gc_delay,omitempty"`
	// UndeleteFor is how long after its deletion a workspace can be restored: its archives, or a
	// volume that could not be archived, are kept that long. A longer gc_delay takes precedence.
	// Default: 7d.
	UndeleteFor Value `json:"undelete_for,omitempty"`
	// KeepArchives is how many archives of each workspace are kept, including the current one: the
	// most recent, 1 to 1000. When it is lowered, the excess is removed after gc_delay. Default: 1.
	KeepArchives Value `json:"keep_archives,omitempty"`
	// Scrub is the amount of archive data, such as `20GiB`, that is read back per day to find
	// damage before an archive is needed; 0 reads nothing. Default: 20GiB.
	Scrub Value `json:"scrub,omitempty"`
	// MaxConcurrent is how many actions on containers, volumes and archives may run
	// at the same time. Default: 10.
	MaxConcurrent Value `json:"max_concurrent,omitempty"`
	// MaxJobs is how many storage jobs, which archive and restore homes, may run at the same time
	// in the whole installation. With more than one, one slot is reserved for jobs that a user is
	// waiting for. Each job takes up to `job_memory` (512MiB), and on Docker all use one disk. With
	// shards, the number may briefly be exceeded by a few. Default: 4.
	MaxJobs Value `json:"max_jobs,omitempty"`
	// MaxRetry is how many times in a row an operation may fail before the workspace enters ERROR.
	// Default: 3.
	MaxRetry Value `json:"max_retry,omitempty"`
	// MaxLossShare is the largest share of workspaces, of at least 4, that may be found to have
	// lost their files at once, above 0 and at most 1. A larger share suggests the wrong container
	// engine or object store, so none of them changes its state. Default: 0.5.
	MaxLossShare Value `json:"max_loss_share,omitempty"`
}

// coordinatorTable lists the settings of the background work; see [App.Table]. Settings that can
// change while the process runs have their defaults in r.
func (a *App) coordinatorTable(r *Resolved) []Setting {
	c, o, live := &a.Coordinator, &r.Options, &r.Live
	interval := func(name string, text *Value, dst *time.Duration) Setting {
		return Setting{"coordinator " + name, text, dst.String(), "", parse.Duration(dst, shortestInterval)}
	}
	number := func(name string, text *Value, dst *int) Setting {
		return Setting{"coordinator " + name, text, fmt.Sprint(*dst), "", parse.Integer(dst)}
	}
	work, gc := &live.Reconcile, &live.GC
	starting := work.Timeouts[workspace.OpStarting]
	return []Setting{
		{"coordinator node_id", &c.NodeID, "", "", parse.Text(&o.NodeID)},
		{"coordinator lock_id", &c.LockID, fmt.Sprint(o.LockID), "", parse.Integer(&o.LockID, notZero(&o.LockID))},
		{"coordinator shards", &c.Shards, fmt.Sprint(o.Shards), "",
			parse.Integer(&o.Shards, notZero(&o.Shards))},
		interval("retry_interval", &c.RetryInterval, &live.Leader.RetryInterval),
		interval("idle_interval", &c.IdleInterval, &work.IdleInterval),
		interval("active_interval", &c.ActiveInterval, &work.ActiveInterval),
		interval("ttl_interval", &c.TTLInterval, &live.TTL.Interval),
		interval("gc_interval", &c.GCInterval, &gc.Interval),
		interval("gc_delay", &c.GCDelay, &gc.Delay),
		interval("undelete_for", &c.UndeleteFor, &gc.UndeleteFor),
		number("keep_archives", &c.KeepArchives, &gc.Keep),
		{"coordinator scrub", &c.Scrub, "20GiB", "", parse.Size(&live.Scrub.BytesPerDay)},
		number("max_concurrent", &c.MaxConcurrent, &work.MaxConcurrent),
		number("max_jobs", &c.MaxJobs, &work.MaxJobs),
		number("max_retry", &c.MaxRetry, &work.MaxRetry),
		{"coordinator max_loss_share", &c.MaxLossShare, fmt.Sprint(work.MaxLossShare), "",
			parse.Fraction(&work.MaxLossShare)},
		{"timeouts starting", &a.Timeouts.Starting, starting.String(), "", func(text string) error {
			err := parse.Duration(&starting, shortestTTL)(text)
			work.Timeouts[workspace.OpStarting] = starting
			return err
		}},
	}
}
