package simulate

import (
	"cmp"
	"slices"

	"github.com/codehub/gateway/coordinator/control/ttl"
)

// Installation is what serves the people.
type Installation struct {
	Name      string
	Processes int
	// Shards divide the background work. MaxJobs and MaxConcurrent are the settings of those names.
	Shards, MaxJobs, MaxConcurrent int
	// Cores and GiB are the processors and the memory of one process. DatabaseCores are the processors of PostgreSQL.
	Cores, GiB, DatabaseCores float64
	// Limited means that max_running_global is set, so that running workspaces are counted.
	Limited bool
}

// Installations are those of the guide.
var Installations = []Installation{
	{Name: "one", Processes: 1, Shards: 1, MaxJobs: 4, MaxConcurrent: 10, Cores: 4, GiB: 8, DatabaseCores: 4, Limited: true},
	{Name: "ten", Processes: 10, Shards: 10, MaxJobs: 100, MaxConcurrent: 20, Cores: 4, GiB: 8, DatabaseCores: 16},
	{Name: "region", Processes: 40, Shards: 40, MaxJobs: 400, MaxConcurrent: 40, Cores: 8, GiB: 32, DatabaseCores: 64},
}

// Fixed limits of the product and of the servers below it.
const (
	poolSize       = 10      // connections of a process to PostgreSQL, and besides
	sessionsBeside = 4       // its LISTEN, leader's lock, and work that one process does at a time
	maxConnections = 100     // PostgreSQL's default
	cycleSeconds   = 15      // between two observations of all workspaces
	recheck        = 30      // seconds for which a process trusts what it knows of a session
	redisOps       = 80_000  // a second, on one core
	prefixReads    = 5_500   // of S3, a second and prefix
	conntrackMax   = 262_144 // Linux's default on a machine with 8 GiB and more
	apiWrites      = 200     // a second that an API server takes with its default fairness
	clusterPods    = 150_000 // as Kubernetes is tested
	engineStarts   = 4       // a second and Docker engine
	engineMemory   = 512     // GiB of a large machine, and what a workspace needs of it
	workspaceGiB   = 0.5
	collection     = 4 * 3600
	full           = 0.7 // of what a server can do before its queue grows
)

// Dependency is a part that fails beyond its capacity.
type Dependency struct {
	Key string
	// Load returns how much of the dependency's capacity the workspaces of the simulation use in a minute: 1 is all of
	// it.
	Load func(m Minute, workspaces int, in Installation) float64
	// Exact means that all of the capacity may be used; otherwise a part must stay free.
	Exact bool
	// Only names the backend that has this dependency; empty means that both have it.
	Only string
}

var restoreCourse, startCourse, sleepCourse, archiveCourse = Courses()

// a returns the count per second for a count per minute.
func a(n float64) float64 { return n / 60 }

// saves returns how many rows the controller writes in a second, and tellings how many changes cause notifications.
// Each change of a desired state adds one to both.
func saves(m Minute) float64 {
	return a(m.Restores)*float64(restoreCourse.Saves) + a(m.Starts-m.Restores)*float64(startCourse.Saves) +
		a(m.Sleeps)*float64(sleepCourse.Saves) + a(m.Archives)*float64(archiveCourse.Saves)
}

func tellings(m Minute) float64 {
	return a(m.Restores)*float64(restoreCourse.Told+1) + a(m.Starts-m.Restores)*float64(startCourse.Told+1) +
		a(m.Sleeps)*float64(sleepCourse.Told+2) + a(m.Archives)*float64(archiveCourse.Told+1)
}

func calls(m Minute) float64 {
	return a(m.Restores)*float64(restoreCourse.Calls()) + a(m.Starts-m.Restores)*float64(startCourse.Calls()) +
		a(m.Sleeps)*float64(sleepCourse.Calls()) + a(m.Archives)*float64(archiveCourse.Calls())
}

// lookups returns how many sessions are read in a second. A session is read at most once per request, and at most once
// per process in each recheck interval.
func lookups(m Minute, in Installation) float64 {
	return m.Active * min(unit("requests"), float64(in.Processes)/recheck)
}

// database returns how much processor time PostgreSQL uses in a second, in ms.
func database(m Minute, in Installation) float64 {
	wakes, n, p := a(m.Starts), m.Running, float64(in.Processes)
	return wakes*lockHeld(m, in) + saves(m)*unit("save") + tellings(m)*p*unit("told") +
		a(m.Sleeps)*(unit("wake")+2*unit("touch")) +
		n/cycleSeconds*(unit("cycle")+float64(in.Shards)*unit("shard_scan")) +
		m.Active/60*unit("touch") +
		lookups(m, in)*unit("session") + a(m.Comes)*(unit("list")+unit("stream")) + p*unit("compare")/10
}

// lockHeld returns how long, in ms, one change to RUNNING holds the lock under which running workspaces are counted.
// The time of the commit is not included.
func lockHeld(m Minute, in Installation) float64 {
	held := unit("wake")
	if in.Limited {
		held += m.Running * unit("count")
	}
	return held
}

// api returns how many writes the API server of Kubernetes gets in a second. A look is a write, too, because it is an
// exec.
func api(m Minute) float64 {
	return a(m.Restores)*(unit("job_calls")+unit("volume")) + a(m.Starts)*unit("pod_calls")/2 + a(m.Sleeps)*(unit("pod_calls")/2+unit("looks")) +
		a(m.Archives)*(unit("job_calls")+unit("volume"))
}

// Dependencies are all of them.
var Dependencies = []Dependency{
	{Key: "jobs", Load: func(m Minute, _ int, in Installation) float64 { return m.Jobs / float64(in.MaxJobs) }},
	{Key: "looks", Load: func(m Minute, _ int, _ Installation) float64 {
		return a(m.Sleeps) * unit("looks") * unit("look") / 1000 / ttl.Questions
	}},
	{Key: "actions", Load: func(m Minute, _ int, in Installation) float64 {
		const call = 0.5 // s: a container is started in more, a row of it is made in less
		return calls(m) * call / float64(in.MaxConcurrent*min(in.Processes, in.Shards))
	}},
	{Key: "planning", Load: func(m Minute, _ int, in Installation) float64 {
		return (m.Running/cycleSeconds + saves(m)) * unit("plan") / 1000 / float64(min(in.Processes, in.Shards))
	}},
	{Key: "database", Load: func(m Minute, _ int, in Installation) float64 { return database(m, in) / 1000 / in.DatabaseCores }},
	{Key: "notify", Load: func(m Minute, _ int, _ Installation) float64 { return tellings(m) * (unit("flush") + 0.1) / 1000 }},
	{Key: "limits_lock", Load: func(m Minute, _ int, in Installation) float64 {
		return a(m.Starts) * (lockHeld(m, in) + unit("flush")) / 1000
	}},
	{Key: "redis", Load: func(m Minute, _ int, in Installation) float64 {
		return (m.Active/30 + tellings(m)*2) / redisOps
	}},
	{Key: "store_requests", Load: func(m Minute, _ int, _ Installation) float64 {
		return (a(m.Restores)*float64(restoreCourse.Asks*2+4) + a(m.Archives)*float64(archiveCourse.Asks*2+12)) / prefixReads
	}},
	{Key: "store_listing", Exact: true, Load: func(_ Minute, workspaces int, _ Installation) float64 {
		return 2 * float64(workspaces) / 1000 * unit("page") / 1000 / collection
	}},
	{Key: "gateway_cpu", Load: func(m Minute, _ int, in Installation) float64 {
		return m.Active * unit("messages") * unit("gateway_ms") / 1000 / (float64(in.Processes) * in.Cores)
	}},
	{Key: "gateway_memory", Load: func(m Minute, _ int, in Installation) float64 {
		return m.Active * unit("connections") * unit("memory") / (1 << 20) / (float64(in.Processes) * in.GiB)
	}},
	{Key: "conntrack", Load: func(m Minute, _ int, in Installation) float64 {
		return m.Active * unit("connections") / conntrackMax / float64(in.Processes)
	}},
	{Key: "api_server", Only: "kubernetes", Load: func(m Minute, _ int, _ Installation) float64 { return api(m) / apiWrites }},
	{Key: "pods", Only: "kubernetes", Exact: true, Load: func(m Minute, _ int, _ Installation) float64 {
		return (m.Running + m.Jobs) / clusterPods
	}},
	{Key: "engine", Only: "docker", Load: func(m Minute, _ int, _ Installation) float64 {
		return (a(m.Starts) + a(m.Restores) + a(m.Archives)) / engineStarts
	}},
	{Key: "engine_memory", Only: "docker", Exact: true, Load: func(m Minute, _ int, _ Installation) float64 {
		return m.Running * workspaceGiB / engineMemory
	}},
}

// Connections returns how many connections to PostgreSQL the installation has, and how many PostgreSQL allows by
// default.
func (in Installation) Connections() (all, limit int) {
	return in.Processes * (poolSize + sessionsBeside), maxConnections
}

// Hold is how many workspaces a dependency holds.
type Hold struct {
	Dependency
	// Peak is how much of the dependency's capacity the workspaces of the simulation use in the busiest quarter of an
	// hour.
	Peak       float64
	Workspaces int
}

// Holds returns for each dependency of an installation how many workspaces it holds, beginning with the one that breaks
// first. The load grows in proportion to the workspaces. The exception is the lock of the limits, which each change
// also holds for longer the more workspaces run.
func Holds(r Result, in Installation) (all []Hold) {
	quarters := r.Quarters()
	for _, d := range Dependencies {
		h := Hold{Dependency: d}
		for _, m := range quarters {
			h.Peak = max(h.Peak, d.Load(m, r.Config.Workspaces, in))
		}
		h.Workspaces = holds(d, r, in)
		all = append(all, h)
	}
	slices.SortStableFunc(all, func(a, b Hold) int { return cmp.Compare(a.Workspaces, b.Workspaces) })
	return all
}

// holds looks for the number of workspaces that use, in the busiest quarter of an hour, exactly as much of the
// dependency as is allowed.
func holds(d Dependency, r Result, in Installation) int {
	may := full
	if d.Exact {
		may = 1
	}
	quarters := r.Quarters()
	low, high := 0.0, 1e9/float64(r.Config.Workspaces)
	for range 60 {
		factor := (low + high) / 2
		peak := 0.0
		for _, m := range quarters {
			peak = max(peak, d.Load(m.times(factor), int(factor*float64(r.Config.Workspaces)), in))
		}
		if peak > may {
			high = factor
		} else {
			low = factor
		}
	}
	return int(low * float64(r.Config.Workspaces))
}
