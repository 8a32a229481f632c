package auth

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/guard"
)

// Grant admits a request. It contains the user, and the session in memory with which the user is signed in; it is valid
// as long as that session lives. A grant of [Auth.Vouched] has no session and ends only with [Auth.Refuse].
type Grant struct {
	User
	life *life
}

// Session returns the id of the main session or access token, or "" for a grant without one. If another authentication
// names the user, all the user's devices share one session.
func (g Grant) Session() string {
	if g.life == nil {
		return ""
	}
	return g.life.main
}

// Actor returns the actor of the grant's requests for the audit. client is their origin.
func (g Grant) Actor(client audit.Actor) audit.Actor {
	by := client.As(g.ID)
	if by.Through = audit.Page; g.life != nil && g.life.scopes != 0 {
		by.Through, by.TokenID = audit.Token, g.life.main
	}
	return by
}

// Ended is closed when the session ends. It may end because of a sign-out, a changed password, a disabled user, a
// revoked token, its age, or [Auth.Refuse]. It is nil for the zero Grant.
func (g Grant) Ended() <-chan struct{} {
	if g.life == nil {
		return nil
	}
	return g.life.ended
}

// Attach adds an open request to those that end with the session. It reports false if the session has already ended. The caller
// MUST call [Stream.Detach] before the request is over. It does not allocate.
func (g Grant) Attach(s *Stream, e Ender) bool {
	if g.life == nil {
		return true
	}
	return g.life.attach(s, e)
}

// Ender is an open request that can be ended from outside.
type Ender interface {
	// End is called at most once, from another goroutine, and never after [Stream.Detach] has returned. It MUST NOT
	// block, and MUST NOT call Detach.
	End()
}

// Stream links an open request into its session's list. It belongs in a value that the request has anyway. The zero
// value is not linked.
type Stream struct {
	life       *life
	ender      Ender
	prev, next *Stream
}

// Detach removes the request from the list, if it is on one.
func (s *Stream) Detach() {
	if s.life == nil {
		return
	}
	s.life.mu.Lock()
	s.unlink()
	s.life.mu.Unlock()
	s.life = nil
}

// unlink removes s from its ring, if it is in one.
func (s *Stream) unlink() {
	if s.next == nil {
		return
	}
	s.prev.next, s.next.prev = s.next, s.prev
	s.prev, s.next, s.ender = nil, nil, nil
}

// life is the part of a session that outlives its entry in the cache. A session that is reread from PostgreSQL keeps its life.
type life struct {
	ended chan struct{}
	main  string // the id of the main session
	// scopes are those of an access token; a sign-in has none.
	scopes scopes
	// touched is when the session's use was last written, in Unix nanoseconds.
	touched atomic.Int64

	mu     sync.Mutex
	over   bool
	ring   Stream      // its neighbours are the open requests
	expiry *time.Timer // nil once the session has ended or was evicted
}

func newLife(main string, of scopes) *life {
	l := &life{ended: make(chan struct{}), main: main, scopes: of}
	l.ring.prev, l.ring.next = &l.ring, &l.ring
	return l
}

func (l *life) attach(s *Stream, e Ender) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return false
	}
	s.life, s.ender = l, e
	s.prev, s.next = l.ring.prev, &l.ring
	s.prev.next, l.ring.prev = s, s
	return true
}

// inUse reports whether a request is open. A session with an open request must stay in memory, because a revocation
// looks for it there.
func (l *life) inUse() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ring.next != &l.ring
}

// expireAfter calls f when the session's time is up.
func (l *life) expireAfter(d time.Duration, f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		l.expiry = time.AfterFunc(d, func() { guard.Run("ending a session that has expired", f) })
	}
}

// forget stops the session's expiry timer.
func (l *life) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stopExpiry()
}

func (l *life) stopExpiry() {
	if l.expiry != nil {
		l.expiry.Stop()
		l.expiry = nil
	}
}

// end ends the session's open requests, once.
func (l *life) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.ended)
	l.stopExpiry()
	for l.ring.next != &l.ring {
		s := l.ring.next
		e := s.ender
		s.unlink()
		guard.Run("ending what a session has open", e.End) // the others end even after a panic
	}
}
