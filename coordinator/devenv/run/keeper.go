package run

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

const (
	// mostEnds is how often a server may end by itself within endsWithin; then it will
	// not do better the next time.
	mostEnds   = 2
	endsWithin = time.Minute
)

// private is a server that this run started. A new one is needed to start it again.
type private interface {
	// Exited tells, without blocking, whether it has ended by itself.
	Exited() bool
	// Stop ends it in order.
	Stop() error
}

// keeper keeps private servers running: one that ends, because it was killed or ran out
// of memory, is started again. CodeHub, which never trusts a connection, goes on
// meanwhile and finds it at the same address.
type keeper struct {
	// dir has the servers' logs.
	dir      string
	progress *progress

	mu      sync.Mutex
	servers []*kept
	// restarts are the starts that are going on.
	restarts sync.WaitGroup
}

// kept is one server.
type kept struct {
	name    string
	running private
	// again starts it at the same address with the same data.
	again func() (private, error)
	// ends are when it ended by itself, within the last minute.
	ends []time.Time
	// restarting is set while it is being started again.
	restarting bool
	// err is why it could not be.
	err error
}

// keep takes charge of a server that runs.
func (k *keeper) keep(name string, running private, again func() (private, error)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.servers = append(k.servers, &kept{name: name, running: running, again: again})
}

// check begins to start again what has ended. It returns an error when that did not
// succeed, or does not help because the server ends again and again. It does not block.
func (k *keeper) check() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	for _, s := range k.servers {
		if s.err != nil {
			return fmt.Errorf("%s ended by itself; see its log below %s; starting it again: %w", s.name, k.dir, s.err)
		}
		if s.restarting || !s.running.Exited() {
			continue
		}
		s.ends = slices.DeleteFunc(s.ends, func(end time.Time) bool { return now.Sub(end) >= endsWithin })
		if s.ends = append(s.ends, now); len(s.ends) > mostEnds {
			return fmt.Errorf("%s ended by itself; see its log below %s", s.name, k.dir)
		}
		s.restarting = true
		k.restarts.Go(func() { k.restart(s, now) })
	}
	return nil
}

// restart starts s again, which ended at that time.
func (k *keeper) restart(s *kept, ended time.Time) {
	running, err := s.again()
	k.mu.Lock()
	defer k.mu.Unlock()
	s.restarting = false
	if s.err = err; err != nil {
		return
	}
	s.running = running
	k.progress.printf("%s ended by itself and was started again; it answers after %.2f s\n", s.name, time.Since(ended).Seconds())
}

// settle waits until nothing is being started any more. check must not be called after.
func (k *keeper) settle() { k.restarts.Wait() }

// stop ends all servers, at the same time.
func (k *keeper) stop() {
	k.settle()
	k.mu.Lock()
	defer k.mu.Unlock()
	var all sync.WaitGroup
	for _, s := range k.servers {
		all.Go(func() {
			if err := s.running.Stop(); err != nil {
				k.progress.printf("stopping %s: %v\n", s.name, err)
			}
		})
	}
	all.Wait()
	k.servers = nil
}
