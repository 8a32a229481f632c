package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// lookupTimeout bounds one query for a session. maxLookups bounds the number of concurrent queries, because made-up
// tokens must not occupy every connection of the pool.
const (
	lookupTimeout = 5 * time.Second
	maxLookups    = 4
	// retryAfter is the pause after a failed background check.
	retryAfter = time.Second
	// touchEvery is the shortest time between two writes of a session's use.
	touchEvery = 5 * time.Minute
)

// sessions finds the user of a token, in memory if possible.
type sessions struct {
	store    *accounts.Store
	cacheTTL time.Duration
	outage   *outage.Reporter
	now      func() time.Time // only for differences: the database decides what is valid

	cache   *cache
	flights singleflight.Group
	lookups chan struct{} // holds a token for each running query
	// retryAt, in Unix nanoseconds, is when the next background check may run.
	retryAt atomic.Int64
	resyncs atomic.Int64          // calls of resync
	refused atomic.Pointer[error] // why nothing is admitted any more; see refuse

	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex // guards closed, so that nothing starts after close
	closed bool
	checks sync.WaitGroup
}

// newSessions returns sessions without any in memory. It does no I/O.
func newSessions(st *accounts.Store, o Options) *sessions {
	s := &sessions{
		store: st, cacheTTL: o.CacheTTL, now: clock.Steady(),
		outage: outage.New(o.Logger, zap.ErrorLevel,
			"sessions cannot be checked; those in memory stay valid, requests with others are answered with 503",
			"sessions can be checked again"),
		cache:   newCache(o.MaxCached),
		lookups: make(chan struct{}, maxLookups),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// close cancels the background checks and waits until they have ended.
func (s *sessions) close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	s.checks.Wait()
	s.cache.forget()
}

// refuse is [Auth.Refuse]. A session that is being read at this moment is either not added to the cache, or is in the
// cache already and ended like the others.
func (s *sessions) refuse(cause error) {
	s.refused.Store(&cause)
	s.cache.revokeIf(func(*entry) bool { return true })
}

// grant returns the grant of the session with this token. The session must be one for the workspace id or, if id is
// empty, a main session.
func (s *sessions) grant(ctx context.Context, token string, id workspace.ID) (Grant, error) {
	h, ok := hashToken(token)
	if !ok {
		return Grant{}, ErrNoSession
	}
	return s.grantOf(ctx, h, id)
}

// grantOf is grant for the hash of a token.
func (s *sessions) grantOf(ctx context.Context, h accounts.TokenHash, id workspace.ID) (Grant, error) {
	e, err := s.find(ctx, h, "")
	if err != nil {
		return Grant{}, err
	}
	if e.workspace != id || e.life.scopes != 0 {
		return Grant{}, ErrNoSession
	}
	return e.grant(), nil
}

// find returns the session with this hash, usually from memory. A non-empty address is recorded as the address of its last use.
func (s *sessions) find(ctx context.Context, h accounts.TokenHash, address string) (*entry, error) {
	if cause := s.refused.Load(); cause != nil {
		return nil, *cause
	}
	now := s.now().UnixNano()
	e := s.cache.get(&h, now)
	if e == nil {
		return s.load(ctx, h)
	}
	if now-e.checked.Load() > int64(s.cacheTTL) {
		s.check(h, e, now, address)
	}
	return e, nil
}

// load reads a session that is not in memory. Concurrent requests with the same token, such as those of one page, share one
// query.
func (s *sessions) load(ctx context.Context, h accounts.TokenHash) (*entry, error) {
	answer := s.flights.DoChan(string(h[:]), func() (any, error) {
		// This does not use the first request's context, because the other requests must not fail if that request's
		// client disconnects.
		looking, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		select {
		case s.lookups <- struct{}{}:
			defer func() { <-s.lookups }()
		case <-looking.Done():
			return nil, fmt.Errorf("waiting to look up a session: %w", looking.Err())
		}
		for {
			generation, asked := s.cache.generation.Load(), s.now().UnixNano()
			if cause := s.refused.Load(); cause != nil {
				return nil, *cause
			}
			v, err := s.store.Session(looking, h)
			if errors.Is(err, postgres.ErrNotFound) {
				s.outage.Recovered()
				return nil, ErrNoSession
			}
			s.outage.Report(s.ctx, err)
			if err != nil {
				return nil, err
			}
			// Only a session that revocations can find may admit a request. Rarely, some session was revoked meanwhile: read
			// again.
			if e := s.cache.put(&h, v, generation, asked); e != nil {
				return e, nil
			}
		}
	})
	select {
	case r := <-answer:
		if r.Err != nil {
			return nil, r.Err
		}
		return r.Val.(*entry), nil
	case <-ctx.Done():
		return nil, fmt.Errorf("looking up a session: %w", ctx.Err())
	}
}

// check checks a cached session in the background. At most one query per session, and maxLookups in total, run at a
// time. After a failure no query begins for the time retryAfter. The session stays valid until PostgreSQL says
// otherwise.
func (s *sessions) check(h accounts.TokenHash, e *entry, now int64, address string) {
	if now < s.retryAt.Load() || !e.checking.CompareAndSwap(false, true) {
		return
	}
	if !s.background(func() {
		defer e.checking.Store(false)
		ctx, cancel := context.WithTimeout(s.ctx, lookupTimeout)
		defer cancel()
		generation, asked := s.cache.generation.Load(), s.now().UnixNano()
		v, err := s.store.Session(ctx, h)
		switch {
		case errors.Is(err, postgres.ErrNotFound):
			err = nil
			s.cache.drop(&h, e)
		case err != nil:
			s.retryAt.Store(s.now().Add(retryAfter).UnixNano())
		case e.user != userOf(v):
			s.cache.put(&h, v, generation, asked)
		default:
			now := s.now().UnixNano()
			e.checked.Store(now)
			if now-e.life.touched.Load() > int64(touchEvery) {
				e.life.touched.Store(now)
				err = s.store.TouchSession(ctx, v, address)
			}
		}
		s.outage.Report(s.ctx, err)
	}) {
		e.checking.Store(false)
	}
}

// background runs f in the background and returns true, if a query may start now and close was not called.
func (s *sessions) background(f func()) bool {
	select {
	case s.lookups <- struct{}{}:
	default:
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		<-s.lookups
		return false
	}
	s.checks.Go(func() {
		defer func() { <-s.lookups }()
		if err := guard.Call(guard.Task, func() error { f(); return nil }); err != nil { // f reports its own errors
			s.outage.Report(s.ctx, err)
		}
	})
	return true
}

// resync makes all sessions in memory due for a check. In the background it then finds the sessions that ended while
// notifications were missed, and ends everything that is open with them. It retries until PostgreSQL answers, or until
// a later call takes over.
func (s *sessions) resync() {
	s.cache.expireChecks()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	turn := s.resyncs.Add(1)
	s.checks.Go(func() {
		for s.resyncs.Load() == turn {
			err := guard.Call(guard.Task, s.compare)
			s.outage.Report(s.ctx, err)
			if err == nil || !periodic.Pause(s.ctx, retryAfter) {
				return
			}
		}
	})
}

// compare asks PostgreSQL which sessions in memory have ended, and revokes those.
func (s *sessions) compare() error {
	ids := s.cache.ids()
	if len(ids) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ctx, lookupTimeout)
	defer cancel()
	ended, err := s.store.EndedSessions(ctx, ids)
	s.cache.revoke(ended...)
	return err
}

// userOf returns the user of a row. The access token of an administrator gives the administrator's role only if it has
// [ScopeAdmin].
func userOf(v accounts.Session) User {
	u := User{ID: v.UserID, Username: v.Username, Role: v.Role}
	if v.Scopes != nil && !scopesOf(v.Scopes).has(ScopeAdmin) {
		u.Role = RoleUser
	}
	return u
}
