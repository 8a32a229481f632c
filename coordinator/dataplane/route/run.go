package route

import (
	"context"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/codehub/gateway/coordinator/guard"
)

// runs names the containers to which the table has routes. A run is one container of a workspace at one address. Its
// key is the address with the run's number appended to the port. Idle connections are kept by this key, so a connection
// to one container is never used for another container that had the same address earlier, or gets it later.
type runs struct {
	mu   sync.RWMutex // guards what follows
	last uint64
	live map[string]life
}

// life is done when the run has ended.
type life struct {
	context.Context
	end context.CancelFunc
}

// portDigits is how many digits of a key belong to the port; the run's number follows.
const portDigits = 5

// begin returns the number of a new run.
func (r *runs) begin() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.live == nil {
		r.live = make(map[string]life)
	}
	r.last++
	run := strconv.FormatUint(r.last, 10)
	ctx, cancel := context.WithCancel(context.Background())
	r.live[run] = life{ctx, cancel}
	return run
}

// end ends a run; an empty run is ignored.
func (r *runs) end(run string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l, ok := r.live[run]; ok {
		delete(r.live, run)
		l.end()
	}
}

// has reports whether the run has not ended yet.
func (r *runs) has(run string) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	_, ok := r.live[run]
	return ok
}

// AfterRun calls f in a goroutine when the run ends, or immediately if the run has already ended. stop cancels the
// call, and returns false if f was already called.
func (t *Table) AfterRun(run string, f func()) (stop func() bool) {
	t.runs.mu.RLock()
	l, ok := t.runs.live[run]
	t.runs.mu.RUnlock()
	const doing = "acting on the end of a container"
	if !ok {
		go guard.Run(doing, f)
		return func() bool { return false }
	}
	return context.AfterFunc(l, func() { guard.Run(doing, f) })
}

// Run returns the number of the workspace's container, or "" while it does not run.
func (s *State) Run() string { return s.run }

// Key returns the key for an address of the workspace's container: its endpoint, or another port of the same host. The default
// port is that of HTTP.
func (s *State) Key(address string) string {
	if address == s.Route.Endpoint {
		return s.key
	}
	return keyOf(address, s.run)
}

// AtPort returns a copy of the state in which the application's address is replaced with the address of another port of
// the same container.
func (s *State) AtPort(port int) *State {
	host, _, err := net.SplitHostPort(s.Route.Endpoint)
	if err != nil {
		return s // the controller writes host:port
	}
	at := *s
	at.Route.Endpoint = net.JoinHostPort(host, strconv.Itoa(port))
	at.key = keyOf(at.Route.Endpoint, s.run)
	return &at
}

// keyOf builds a key.
func keyOf(address, run string) string {
	host, port := address, "80"
	if i := strings.LastIndexByte(address, ':'); i > strings.LastIndexByte(address, ']') {
		host, port = address[:i], address[i+1:]
	}
	return host + ":" + strings.Repeat("0", max(0, portDigits-len(port))) + port + run
}

// AddressOf returns the address and the run of a key. ok is false if it is not a key.
func AddressOf(key string) (address, run string, ok bool) {
	i := strings.LastIndexByte(key, ':') + 1
	if i == 0 || len(key)-i <= portDigits {
		return "", "", false
	}
	return key[:i] + strings.TrimLeft(key[i:i+portDigits], "0"), key[i+portDigits:], true
}
