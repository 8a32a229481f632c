package simulate

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/schedule"
	"github.com/codehub/gateway/coordinator/control/ttl"
)

// Config is an installation for a simulation.
type Config struct {
	Workspaces int
	Days       int // working days, of which the first one follows a weekend
	People     People
	TTL        ttl.Settings
	// MaxJobs is how many storage jobs run concurrently.
	MaxJobs int
	Times   Times
	Seed    uint64
}

// Times are how long the actions of the backend and the store take.
type Times struct {
	// Start is how long a container takes to start, from the request to the first answer. Provision is how long the
	// creation of a volume takes, and JobStart how long a storage job takes without its transfer.
	Start, Provision, JobStart time.Duration
	// Rate is how many bytes of a packed home a job transfers in a second, in either direction.
	Rate float64
}

// Minute counts the events of one minute, and the workspaces and jobs in each state at its end.
type Minute struct {
	Comes, Starts, Restores, Sleeps, Archives float64
	Active, Running, Asleep, Archived         float64
	Jobs, Waiting                             float64 // storage jobs that run, and that wait
}

// plus and times serve to compute the mean of several minutes, and the minutes of larger installations.
func (m Minute) plus(o Minute) Minute {
	return Minute{
		m.Comes + o.Comes, m.Starts + o.Starts, m.Restores + o.Restores, m.Sleeps + o.Sleeps, m.Archives + o.Archives,
		m.Active + o.Active, m.Running + o.Running, m.Asleep + o.Asleep, m.Archived + o.Archived,
		m.Jobs + o.Jobs, m.Waiting + o.Waiting,
	}
}

func (m Minute) times(f float64) Minute {
	return Minute{
		m.Comes * f, m.Starts * f, m.Restores * f, m.Sleeps * f, m.Archives * f,
		m.Active * f, m.Running * f, m.Asleep * f, m.Archived * f, m.Jobs * f, m.Waiting * f,
	}
}

// quarter is how many minutes are averaged. An overload of less time breaks nothing, and in a single minute there may
// be a few more or fewer people by chance.
const quarter = 15

// Quarters returns the mean minute of each quarter of an hour.
func (r Result) Quarters() (all []Minute) {
	for chunk := range slices.Chunk(r.Minutes, quarter) {
		var sum Minute
		for _, m := range chunk {
			sum = sum.plus(m)
		}
		all = append(all, sum.times(1/float64(len(chunk))))
	}
	return all
}

// Result is what a simulation has found.
type Result struct {
	Config  Config
	Minutes []Minute
	// AwakeSeconds and AsleepSeconds are the sums of all workspaces.
	AwakeSeconds, AsleepSeconds float64
	// RestoreWaits are how long people waited for workspaces that were archived, and StartWaits for those that slept.
	RestoreWaits, StartWaits []time.Duration
}

// The states of a workspace in the simulation are those of the product, and the operations between them.
type state uint8

const (
	archived state = iota
	restoring
	starting
	running
	asleep
	archiving
)

// event is something that happens to a workspace at a second.
type event struct {
	workspace int32
	kind      eventKind
	arg       int32
}

type eventKind uint8

const (
	comes    eventKind = iota // a session begins; arg is its end
	leaves                    // a session ends
	ready                     // the container answers
	unused                    // the TTL of a running one may have passed
	expires                   // that of a sleeping one; arg is when it fell asleep
	restored                  // its storage job has ended
	packed                    // the same
)

// one is a workspace.
type one struct {
	state    state
	wanted   bool  // somebody waits for it
	usedAt   int32 // the end of the last session that has begun
	asked    int32 // when somebody began to wait
	since    int32 // the state began
	size     float64
	sessions int32 // open ones
}

// run is a simulation in progress.
type run struct {
	Config
	Result
	random  *rand.Rand
	all     []one
	queue   [][]event // by second
	now     int32
	minute  Minute
	counts  [archiving + 1]int
	waiting []schedule.Request
	jobs    []schedule.Request
	served  schedule.Served
}

// epoch is when the first day begins. Its zone is that of the installation.
var epoch = time.Date(2026, 3, 2, 0, 0, 0, 0, time.UTC)

func moment(second int32) time.Time { return epoch.Add(time.Duration(second) * time.Second) }

// Run simulates it. The same configuration gives the same result.
func Run(c Config) Result {
	r := &run{Config: c, random: rand.New(rand.NewPCG(c.Seed, 0)), all: make([]one, c.Workspaces)}
	r.Result.Config = c
	end := int32(c.Days) * 24 * 3600
	r.queue = make([][]event, end)
	r.populate()
	for r.now = 0; r.now < end; r.now++ {
		for i := 0; i < len(r.queue[r.now]); i++ { // an event may add one of this second
			r.happens(r.queue[r.now][i])
		}
		r.queue[r.now] = nil
		r.beginJobs()
		r.AwakeSeconds += float64(r.counts[running] + r.counts[starting])
		r.AsleepSeconds += float64(r.counts[asleep] + r.counts[archiving] + r.counts[restoring])
		if r.now%60 == 59 {
			r.endMinute()
		}
	}
	return r.Result
}

// populate decides who works when. After a weekend all workspaces are archived.
func (r *run) populate() {
	r.counts[archived] = len(r.all)
	i := 0
	for n, kind := range r.People.Kinds {
		until := i + int(kind.Share*float64(len(r.all)))
		if n == len(r.People.Kinds)-1 {
			until = len(r.all)
		}
		for ; i < until; i++ {
			r.all[i].size = spread(r.random, r.People.HomeBytes, r.People.HomeSpread)
			for day := range r.Days {
				if r.random.Float64() >= kind.Used {
					continue
				}
				for _, s := range r.People.day(r.random, day) {
					r.at(s.begin, event{int32(i), comes, s.end})
				}
			}
		}
	}
}

func (r *run) at(second int32, e event) {
	if second = max(second, r.now); int(second) < len(r.queue) {
		r.queue[second] = append(r.queue[second], e)
	}
}

func (r *run) after(d time.Duration, e event) { r.at(r.now+int32(d.Round(time.Second)/time.Second), e) }

// becomes changes the state of a workspace.
func (r *run) becomes(w *one, s state) {
	r.counts[w.state]--
	r.counts[s]++
	w.state, w.since = s, r.now
}

func (r *run) happens(e event) {
	w := &r.all[e.workspace]
	switch e.kind {
	case comes:
		r.minute.Comes++
		r.minute.Active++
		w.sessions++
		w.usedAt = max(w.usedAt, e.arg)
		r.at(e.arg, event{e.workspace, leaves, 0})
		if w.state != running && !w.wanted {
			w.wanted, w.asked = true, r.now
		}
		r.wake(e.workspace)
	case leaves:
		r.minute.Active--
		w.sessions--
		if w.state == running && w.sessions == 0 {
			r.due(e.workspace)
		}
	case ready:
		r.becomes(w, running)
		w.wanted = false
		r.minute.Starts++
		if w.sessions == 0 {
			r.due(e.workspace)
		}
	case unused:
		if w.state == running && w.sessions == 0 && !moment(r.now).Before(r.TTL.Due(moment(w.usedAt))) {
			r.minute.Sleeps++
			r.becomes(w, asleep)
			r.after(r.TTL.Archive, event{e.workspace, expires, r.now})
		}
	case expires:
		if w.state == asleep && w.since == e.arg {
			r.becomes(w, archiving)
			r.ask(e.workspace, schedule.Background)
		}
	case restored:
		r.endJob(e.workspace)
		r.RestoreWaits = append(r.RestoreWaits, time.Duration(r.now-w.asked)*time.Second+r.Times.Start)
		r.minute.Restores++
		r.becomes(w, starting)
		r.after(r.Times.Start, event{e.workspace, ready, 0})
	case packed:
		r.endJob(e.workspace)
		r.minute.Archives++
		r.becomes(w, archived)
		r.wake(e.workspace)
	}
}

// due looks at a workspace again when the TTL runner will.
func (r *run) due(id int32) {
	at := int32(r.TTL.Due(moment(max(r.all[id].usedAt, r.now))).Sub(epoch) / time.Second)
	tick := int32(max(r.TTL.Interval/time.Second, 1))
	r.at((at+tick-1)/tick*tick, event{id, unused, 0})
}

// wake begins the operation that brings up an awaited workspace.
func (r *run) wake(id int32) {
	w := &r.all[id]
	if !w.wanted {
		return
	}
	switch w.state {
	case asleep:
		r.StartWaits = append(r.StartWaits, r.Times.Start)
		r.becomes(w, starting)
		r.after(r.Times.Start, event{id, ready, 0})
	case archived:
		r.becomes(w, restoring)
		r.ask(id, schedule.Interactive)
	}
}

// ask lets a storage job wait for its place.
func (r *run) ask(id int32, class schedule.Class) {
	key := strconv.Itoa(int(id))
	r.waiting = append(r.waiting, schedule.Request{Owner: key, Class: class, Since: moment(r.now), Key: key})
}

// beginJobs gives places to storage jobs, in the order in which the product does.
func (r *run) beginJobs() {
	free := r.MaxJobs - len(r.jobs)
	if free <= 0 || len(r.waiting) == 0 {
		return
	}
	next, _ := schedule.Queue{
		Limit: r.MaxJobs, Free: free, MaxWait: schedule.JobMaxWait, Running: r.jobs, Waiting: r.waiting, Served: r.served,
	}.Next(moment(r.now))
	for _, i := range next {
		request := r.waiting[i]
		r.served.Note(request, moment(r.now))
		id, _ := strconv.Atoi(request.Key)
		w := &r.all[id]
		takes := r.Times.JobStart + time.Duration(w.size/r.Times.Rate*float64(time.Second))
		kind := packed
		if w.state == restoring {
			kind, takes = restored, takes+r.Times.Provision
		}
		r.jobs = append(r.jobs, request)
		r.after(max(takes, time.Second), event{int32(id), kind, 0})
	}
	begun := make(map[int]bool, len(next))
	for _, i := range next {
		begun[i] = true
	}
	left := r.waiting[:0]
	for i, w := range r.waiting {
		if !begun[i] {
			left = append(left, w)
		}
	}
	r.waiting = left
}

func (r *run) endJob(id int32) {
	key := strconv.Itoa(int(id))
	if i := slices.IndexFunc(r.jobs, func(j schedule.Request) bool { return j.Key == key }); i >= 0 {
		r.jobs[i] = r.jobs[len(r.jobs)-1]
		r.jobs = r.jobs[:len(r.jobs)-1]
	}
}

// endMinute records the state. The number of active people carries over.
func (r *run) endMinute() {
	m := r.minute
	m.Running, m.Asleep, m.Archived = float64(r.counts[running]+r.counts[starting]), float64(r.counts[asleep]), float64(r.counts[archived])
	m.Jobs, m.Waiting = float64(len(r.jobs)), float64(len(r.waiting))
	r.Minutes = append(r.Minutes, m)
	r.minute = Minute{Active: m.Active}
}
