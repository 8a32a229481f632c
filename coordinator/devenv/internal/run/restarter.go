package run

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// maxEnds is how often a server may end by itself within the period endsWithin. If it ends more often, another
	// restart will not help.
	maxEnds    = 2
	endsWithin = time.Minute
)

// process is a server that this run started.
type process interface {
	// Exited tells, without blocking, whether it has ended by itself.
	Exited() bool
	// Stop ends it in an orderly way.
	Stop() error
}

// restarter starts private servers, and restarts those that have ended because they were killed or ran out of memory.
// CodeHub, which never relies on a connection, keeps running meanwhile and finds the server at the same address again.
type restarter struct {
	// dir has the servers' logs.
	dir    string
	printf func(format string, args ...any)

	mu      sync.Mutex
	servers []*restarted
	// restarts are the restarts in progress.
	restarts sync.WaitGroup
}

// restarted is one server.
type restarted struct {
	name string
	// start starts it, each time at the same address with the same data.
	start   func() (process, error)
	running process
	// ends are the times in the last minute at which it ended by itself.
	ends []time.Time
	// restarting is set while the server is being started again; err is why that failed.
	restarting bool
	err        error
}

// start starts a server and keeps it running.
func start[P process](r *restarter, name string, do func() (P, error)) (P, error) {
	running, err := do()
	if err == nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.servers = append(r.servers,
			&restarted{name: name, start: func() (process, error) { return do() }, running: running})
	}
	return running, err
}

// check begins to restart ended programs. It returns an error if a restart has failed, or does not help because the
// server ends again and again. It does not block.
func (r *restarter) check() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := time.Now()
	for _, s := range r.servers {
		if s.err != nil {
			return fmt.Errorf("%s ended by itself; see its log in %s; starting it again: %w", s.name, r.dir, s.err)
		}
		if s.restarting || !s.running.Exited() {
			continue
		}
		s.ends = slices.DeleteFunc(s.ends, func(end time.Time) bool { return now.Sub(end) >= endsWithin })
		if s.ends = append(s.ends, now); len(s.ends) > maxEnds {
			return fmt.Errorf("%s ended by itself; see its log in %s", s.name, r.dir)
		}
		s.restarting = true
		r.restarts.Go(func() { r.restart(s, now) })
	}
	return nil
}

// restart restarts s, which ended at that time.
func (r *restarter) restart(s *restarted, ended time.Time) {
	running, err := s.start()
	r.mu.Lock()
	defer r.mu.Unlock()
	s.restarting = false
	if s.err = err; err != nil {
		return
	}
	s.running = running
	r.printf("%s ended by itself and was started again; it answers after %.2f s\n", s.name, time.Since(ended).Seconds())
}

// settle waits until nothing is being started any more. check must not be called after that.
func (r *restarter) settle() { r.restarts.Wait() }

// stop ends all servers, at the same time.
func (r *restarter) stop() {
	r.settle()
	r.mu.Lock()
	defer r.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range r.servers {
		all.Go(func() {
			if err := s.running.Stop(); err != nil {
				r.printf("stopping %s: %v\n", s.name, err)
			}
		})
	}
	all.Wait()
	r.servers = nil
}
