package metrics

import (
	"strconv"

	"github.com/codehub/gateway/coordinator/guard"
)

// The boundaries of the histograms, in seconds.
var (
	ofQueries = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	ofWakes   = []float64{.1, .25, .5, 1, 2, 4, 8, 15, 30, 60, 120, 300}
	ofWork    = []float64{.25, .5, 1, 2, 5, 10, 30, 60, 120, 300, 600, 1800}
)

const seconds, bytes = "seconds", "bytes"

// table is the one table of all metrics. Metrics without read are recorded.
var table = [...]Metric{
	{
		Name: "codehub_build_info", Kind: Gauge,
		Labels: []Label{release, revision},
		Help:   "1, with the release and the commit that the program was built from.",
		read:   func(_ *State, tell tell) { tell(1, release.Values[0], revision.Values[0]) },
	},

	{
		Name: "codehub_gateway_requests_total", Kind: Counter,
		Labels: []Label{clients, outcomes},
		Help:   "Requests for workspaces, by what became of them.",
	},
	{
		Name: "codehub_gateway_refusals_total", Kind: Counter,
		Labels: []Label{clients, refusalReasons},
		Help:   "Requests for workspaces that were refused, by the reason.",
	},
	{
		Name: "codehub_gateway_hold_duration_seconds", Kind: Histogram, Unit: seconds,
		Labels: []Label{clients}, buckets: ofWakes,
		Help: "How long requests were held while their workspace was not ready.",
	},
	{
		Name: "codehub_gateway_held_requests", Kind: Gauge,
		Help: "Requests that are held now.",
		read: func(s *State, tell tell) { tell(float64(s.Held)) },
	},
	{
		Name: "codehub_gateway_held_requests_limit", Kind: Gauge,
		Help: "How many requests this process holds at most (max_held).",
		read: func(s *State, tell tell) { tell(float64(s.HeldLimit)) },
	},
	{
		Name: "codehub_gateway_websockets", Kind: Gauge,
		Help: "WebSockets and other upgraded connections to workspaces that are open.",
	},
	{
		Name: "codehub_activity_signals_total", Kind: Counter,
		Labels: []Label{signals},
		Help: "Signals that a workspace is used. Of those of one workspace within half a second, the first one " +
			"counts.",
	},
	{
		Name: "codehub_wakes_total", Kind: Counter,
		Labels: []Label{clients, wokenIn, wakeEnds},
		Help:   "Wake-ups that have ended, by who began them, the phase at the beginning, and how they ended.",
	},
	{
		Name: "codehub_wake_duration_seconds", Kind: Histogram, Unit: seconds,
		Labels: []Label{clients, wokenIn}, buckets: ofWakes,
		Help: "How long wake-ups took until the application gave its first good answer.",
	},
	{
		Name: "codehub_wake_stage_duration_seconds", Kind: Histogram, Unit: seconds,
		Labels: []Label{clients, stages}, buckets: ofWakes,
		Help: "How long each stage of wake-ups took that have ended with a good answer, without stages that were " +
			"left out.",
	},
	{
		Name: "codehub_wakes_in_progress", Kind: Gauge,
		Help: "Wake-ups that are in progress.",
		read: func(s *State, tell tell) { tell(float64(s.WakeUps)) },
	},
	{
		Name: "codehub_event_streams", Kind: Gauge,
		Help: "Event streams (SSE) that are open.",
		read: func(s *State, tell tell) { tell(float64(s.Streams)) },
	},
	{
		Name: "codehub_event_streams_too_slow_total", Kind: Counter,
		Help: "Event streams that were closed because their client lagged behind.",
	},
	{
		Name: "codehub_routes", Kind: Gauge,
		Help: "Workspaces in the route table of this process.",
		read: func(s *State, tell tell) { tell(float64(s.Routes)) },
	},
	{
		Name: "codehub_routes_confirmed", Kind: Gauge,
		Help: "1 while PostgreSQL has confirmed the routes within their lease, else 0: then requests are held.",
		read: func(s *State, tell tell) { tell(one(s.Confirmed)) },
	},

	{
		Name: "codehub_workspaces", Kind: Gauge, Leader: true,
		Labels: []Label{phases},
		Help:   "Workspaces by phase, up to a minute ago, without those that are deleted for good.",
		read:   counted(phases, func(w *Workspaces) map[string]int64 { return w.Phases }),
	},
	{
		Name: "codehub_workspaces_in_operation", Kind: Gauge, Leader: true,
		Labels: []Label{operations},
		Help:   "Workspaces with an operation in progress, by the operation.",
		read:   counted(operations, func(w *Workspaces) map[string]int64 { return w.Operations }),
	},
	{
		Name: "codehub_workspaces_waiting", Kind: Gauge, Leader: true,
		Labels: []Label{waits},
		Help:   "Workspaces that are without progress, by what they wait for.",
		read:   counted(waits, func(w *Workspaces) map[string]int64 { return w.Waiting }),
	},
	{
		Name: "codehub_workspaces_in_error", Kind: Gauge, Leader: true,
		Labels: []Label{errorReasons},
		Help:   "Workspaces in the phase ERROR, by the reason.",
		read:   counted(errorReasons, func(w *Workspaces) map[string]int64 { return w.Errors }),
	},
	{
		Name: "codehub_workspaces_dozing", Kind: Gauge, Leader: true,
		Help: "Workspaces that doze: RUNNING, with a frozen container, which keeps its memory.",
		read: func(s *State, tell tell) {
			if w := s.Leader.Workspaces; w != nil {
				tell(float64(w.Dozing))
			}
		},
	},
	{
		Name: "codehub_dozes_total", Kind: Counter,
		Help: "Workspaces that began to doze because they were not used. How many containers were frozen and thawed, " +
			"codehub_actuator_call_duration_seconds tells.",
	},
	{
		Name: "codehub_desired_state_changes_total", Kind: Counter,
		Labels: []Label{desiredStates, causes},
		Help: "Changes of desired states, by the new one and the cause. Those to STANDBY are the sleeps. Waking one that " +
			"dozes counts as one to RUNNING.",
	},
	{
		Name: "codehub_wrong_sleeps_total", Kind: Counter,
		Help: "Workspaces that were put to sleep because they were not used, and were wanted again within a minute.",
	},
	{
		Name: "codehub_operation_duration_seconds", Kind: Histogram, Unit: seconds,
		Labels: []Label{operations, operationEnds}, buckets: ofWork,
		Help: "How long operations took, by their outcome. A postponed one waits for a server and is begun again.",
	},
	{
		Name: "codehub_operation_failures_total", Kind: Counter,
		Labels: []Label{operations, errorReasons},
		Help:   "Operations that have failed, by the reason.",
	},

	{
		Name: "codehub_shards", Kind: Gauge,
		Help: "Into how many shards the workspaces are divided (shards).",
		read: func(s *State, tell tell) { tell(float64(s.Shards)) },
	},
	{
		Name: "codehub_shards_led", Kind: Gauge,
		Help: "Shards that this process leads. The sum over all processes is codehub_shards.",
		read: func(s *State, tell tell) { tell(float64(len(s.Led))) },
	},
	{
		Name: "codehub_leader_epoch", Kind: Gauge, Leader: true,
		Labels: []Label{shards},
		Help:   "The epoch of the term of each shard, which grows by one with each new leader.",
		read: func(s *State, tell tell) {
			for _, t := range s.Led {
				tell(float64(t.Epoch), strconv.Itoa(t.Shard))
			}
		},
	},
	{
		Name: "codehub_leader_terms_total", Kind: Counter,
		Help: "Terms as a leader that this process has begun.",
	},
	{
		Name: "codehub_internal_failures_total", Kind: Counter,
		Labels: []Label{failed},
		Help: "Panics of the program, and rows that it could not read, by what was affected: one workspace, a component that " +
			"was started again, or one request or call.",
		read: func(_ *State, tell tell) {
			for s, name := range guard.Scopes {
				tell(float64(guard.Counted(guard.Scope(s))), name)
			}
		},
	},
	{
		Name: "codehub_workspaces_set_aside", Kind: Gauge, Leader: true,
		Help: "Workspaces that the leader leaves as they are, because a step for them panics or their row cannot be read.",
		read: func(s *State, tell tell) { tell(float64(s.Leader.SetAside)) },
	},
	{
		Name: "codehub_reconcile_duration_seconds", Kind: Histogram, Unit: seconds,
		Labels: []Label{scopes}, buckets: ofQueries,
		Help: "How long the controller took to observe workspaces and to save its decisions.",
	},
	{
		Name: "codehub_sensor_errors_total", Kind: Counter,
		Labels: []Label{sensors},
		Help:   "Questions of the controller that a server has not answered.",
	},
	{
		Name: "codehub_sensor_last_answer_timestamp_seconds", Kind: Gauge, Unit: seconds,
		Labels: []Label{sensors},
		Help:   "When a server last answered the controller of this process, 0 if it never has.",
	},
	{
		Name: "codehub_storage_jobs", Kind: Gauge, Leader: true,
		Labels: []Label{turns},
		Help:   "Storage jobs of the shards that this process leads, which run or wait for a place.",
		read: func(s *State, tell tell) {
			tell(float64(s.Leader.JobsRunning), "running")
			tell(float64(s.Leader.JobsWaiting), "waiting")
		},
	},
	{
		Name: "codehub_storage_jobs_limit", Kind: Gauge, Leader: true,
		Help: "How many storage jobs may run in the whole installation (max_jobs). Each leader tells it.",
		read: func(s *State, tell tell) { tell(float64(s.Leader.JobsLimit)) },
	},
	{
		Name: "codehub_actuator_calls", Kind: Gauge, Leader: true,
		Labels: []Label{queues, turns},
		Help: "Calls of the container backend that run or wait for their turn. Volumes are removed in a queue of " +
			"their own.",
		read: func(s *State, tell tell) {
			for i, q := range []Queue{s.Leader.Calls, s.Leader.Removals} {
				tell(float64(q.Running), queues.Values[i], "running")
				tell(float64(q.Waiting), queues.Values[i], "waiting")
			}
		},
	},
	{
		Name: "codehub_actuator_wait_seconds", Kind: Histogram, Unit: seconds,
		buckets: ofQueries,
		Help:    "How long calls of the container backend waited for their turn.",
	},
	{
		Name: "codehub_actuator_call_duration_seconds", Kind: Histogram, Unit: seconds,
		Labels: []Label{actions}, buckets: ofQueries,
		Help: "How long calls of the container backend took.",
	},
	{
		Name: "codehub_actuator_call_errors_total", Kind: Counter,
		Labels: []Label{actions},
		Help:   "Calls of the container backend that have failed.",
	},
	{
		Name: "codehub_cycle_duration_seconds", Kind: Histogram, Unit: seconds,
		Labels: []Label{components}, buckets: ofWork,
		Help: "How long the runs of a component took that works at an interval.",
	},
	{
		Name: "codehub_cycle_errors_total", Kind: Counter,
		Labels: []Label{components},
		Help:   "Runs of a component that works at an interval that have failed, at least in part.",
	},
	{
		Name: "codehub_cycle_last_success_timestamp_seconds", Kind: Gauge, Unit: seconds,
		Labels: []Label{components},
		Help: "When a component that works at an interval last ran without an error in this process, 0 if it never " +
			"has.",
	},

	{
		Name: "codehub_archives", Kind: Gauge, Leader: true,
		Help: "Workspaces that have an archive.",
		read: ofArchives(func(h *ArchiveHealth) float64 { return float64(h.Current) }),
	},
	{
		Name: "codehub_archives_damaged", Kind: Gauge, Leader: true,
		Help: "Workspaces whose current archive is known to be damaged or missing.",
		read: ofArchives(func(h *ArchiveHealth) float64 { return float64(h.Damaged) }),
	},
	{
		Name: "codehub_archives_unverified", Kind: Gauge, Leader: true,
		Help: "Workspaces whose current archive was never read back.",
		read: ofArchives(func(h *ArchiveHealth) float64 { return float64(h.Unverified) }),
	},
	{
		Name: "codehub_archive_oldest_verification_seconds", Kind: Gauge, Unit: seconds, Leader: true,
		Help: "Time since the oldest verification of a current archive, or since an archive was made that was " +
			"never verified.",
		read: ofArchives(func(h *ArchiveHealth) float64 { return h.Oldest.Seconds() }),
	},
	{
		Name: "codehub_archived_bytes_total", Kind: Counter, Unit: bytes,
		Help: "Size of the archives that storage jobs have made.",
	},
	{
		Name: "codehub_scrub_archives_total", Kind: Counter,
		Labels: []Label{readBack},
		Help:   "Archives that were read back to find damage, by what was found.",
	},
	{
		Name: "codehub_scrub_bytes_total", Kind: Counter, Unit: bytes,
		Help: "Bytes of the archives that were read back.",
	},
	{
		Name: "codehub_gc_archives_total", Kind: Counter,
		Labels: []Label{collected},
		Help: "Archives that the collector has deleted, has spared because they were needed again, or could not " +
			"delete.",
	},
	{
		Name: "codehub_gc_last_cycle_archives", Kind: Gauge, Leader: true,
		Labels: []Label{found},
		Help: "Archives in the last cycle of the collector: all, and those that no workspace needs, are due, are " +
			"of no workspace, or are newer than theirs.",
		read: func(s *State, tell tell) {
			if c := s.Leader.Collected; c != nil {
				for i, n := range []int{c.Archives, c.Orphans, c.Due, c.Unknown, c.Newer} {
					tell(float64(n), found.Values[i])
				}
			}
		},
	},
	{
		Name: "codehub_gc_aborted_uploads_total", Kind: Counter,
		Help: "Unfinished uploads that the collector has aborted.",
	},
	{
		Name: "codehub_s3_requests_total", Kind: Counter,
		Labels: []Label{s3Operations, s3Outcomes},
		Help:   "Requests of this process to the object store, each attempt. Storage jobs have requests of their own.",
	},
	{
		Name: "codehub_s3_request_duration_seconds", Kind: Histogram, Unit: seconds,
		Labels: []Label{s3Operations}, buckets: ofQueries,
		Help: "How long the object store took to begin its answer.",
	},
	{
		Name: "codehub_s3_bytes_total", Kind: Counter, Unit: bytes,
		Labels: []Label{directions},
		Help:   "Bytes of the bodies of this process's requests to the object store, and of the answers.",
	},

	{
		Name: "codehub_homes_disk_size_bytes", Kind: Gauge, Unit: bytes, Leader: true,
		Help: "Size of the disk of the homes, where the backend knows it.",
		read: ofDisk(func(d *Disk, tell tell) { tell(float64(d.Total)) }),
	},
	{
		Name: "codehub_homes_disk_free_bytes", Kind: Gauge, Unit: bytes, Leader: true,
		Help: "What is free of the disk of the homes.",
		read: ofDisk(func(d *Disk, tell tell) { tell(float64(d.Free)) }),
	},
	{
		Name: "codehub_homes_disk_mark_passed", Kind: Gauge, Leader: true,
		Labels: []Label{marks},
		Help:   "1 while a mark of disk_pressure is passed: archive_at makes room, stop_at lets new homes wait.",
		read: ofDisk(func(d *Disk, tell tell) {
			tell(one(d.Pressed), "archive_at")
			tell(one(d.Full), "stop_at")
		}),
	},
	{
		Name: "codehub_database_connections", Kind: Gauge,
		Labels: []Label{connections},
		Help:   "Connections of the pool to PostgreSQL.",
		read:   func(s *State, tell tell) { s.Database.tell(tell) },
	},
	{
		Name: "codehub_database_connections_limit", Kind: Gauge,
		Help: "How many connections the pool to PostgreSQL has at most (pool_max_conns).",
		read: func(s *State, tell tell) { tell(float64(s.Database.Limit)) },
	},
	{
		Name: "codehub_database_acquires_total", Kind: Counter,
		Help: "How often a connection was taken from the pool to PostgreSQL.",
		read: func(s *State, tell tell) { tell(float64(s.Database.Acquired)) },
	},
	{
		Name: "codehub_database_acquire_waits_total", Kind: Counter,
		Help: "How often none was free, so that one had to be waited for.",
		read: func(s *State, tell tell) { tell(float64(s.Database.Waited)) },
	},
	{
		Name: "codehub_database_acquire_wait_seconds_total", Kind: Counter, Unit: seconds,
		Help: "How long connections to PostgreSQL were waited for, in all.",
		read: func(s *State, tell tell) { tell(s.Database.Wait.Seconds()) },
	},
	{
		Name: "codehub_database_acquires_canceled_total", Kind: Counter,
		Help: "How often waiting for a connection to PostgreSQL was given up.",
		read: func(s *State, tell tell) { tell(float64(s.Database.GivenUp)) },
	},
	{
		Name: "codehub_redis_connections", Kind: Gauge,
		Labels: []Label{connections},
		Help:   "Connections of the pool to Redis.",
		read:   func(s *State, tell tell) { s.Redis.tell(tell) },
	},
	{
		Name: "codehub_redis_connections_limit", Kind: Gauge,
		Help: "How many connections the pool to Redis has at most.",
		read: func(s *State, tell tell) { tell(float64(s.Redis.Limit)) },
	},
	{
		Name: "codehub_redis_acquire_timeouts_total", Kind: Counter,
		Help: "How often the pool to Redis had no free connection in time.",
		read: func(s *State, tell tell) { tell(float64(s.Redis.GivenUp)) },
	},
}

// counted exports numbers of workspaces by a label, once they are known.
func counted(l Label, of func(*Workspaces) map[string]int64) func(*State, tell) {
	return func(s *State, tell tell) {
		if w := s.Leader.Workspaces; w != nil {
			each(l, of(w), tell)
		}
	}
}

func ofArchives(of func(*ArchiveHealth) float64) func(*State, tell) {
	return func(s *State, tell tell) {
		if h := s.Leader.Archives; h != nil {
			tell(of(h))
		}
	}
}

func ofDisk(of func(*Disk, tell)) func(*State, tell) {
	return func(s *State, tell tell) {
		if d := s.Leader.Disk; d != nil {
			of(d, tell)
		}
	}
}

func (p *Pool) tell(tell tell) {
	tell(float64(p.InUse), "in_use")
	tell(float64(p.Idle), "idle")
}
