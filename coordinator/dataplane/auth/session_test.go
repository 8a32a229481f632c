package auth

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
)

// testClock is a clock that tests set.
type testClock struct{ now atomic.Int64 }

func newClock() *testClock {
	c := new(testClock)
	c.now.Store(time.Now().UnixNano())
	return c
}

func (c *testClock) Now() time.Time          { return time.Unix(0, c.now.Load()) }
func (c *testClock) Advance(d time.Duration) { c.now.Add(int64(d)) }

// TestASessionEndsWhenItsTimeIsUp: the database determines how long a session lasts, regardless of this
// machine's clock.
func TestASessionEndsWhenItsTimeIsUp(t *testing.T) {
	for _, skew := range []time.Duration{0, -3 * time.Hour, 3 * time.Hour} {
		a := open(t, Options{SessionTTL: time.Hour})
		c := newClock()
		c.Advance(skew)
		a.sessions.now = c.Now
		addUser(t, a, "ann")
		token := login(t, a, "ann")
		wantSession(t, a, "fresh", token, nil)
		c.Advance(59 * time.Minute)
		hash, _ := hashToken(token)
		if a.sessions.cache.get(&hash, c.Now().UnixNano()) == nil {
			t.Errorf("%s: a session that is nearly over is not in memory any more", skew)
		}
		// PostgreSQL has its own clock: end the session there, too.
		storetest.Exec(t, a.store, `UPDATE sessions SET expires_at = now()`)
		c.Advance(2 * time.Minute)
		wantSession(t, a, "over, "+skew.String(), token, ErrNoSession)
	}
}

func TestACachedSessionOutlivesPostgreSQLAndAnUnseenOneIsRefused(t *testing.T) {
	pg, dsn := devenv.NewPostgreSQL(t)
	core, logs := observer.New(zap.InfoLevel)
	a := openAt(t, dsn, Options{Logger: zap.New(core)})
	c := newClock()
	a.sessions.now = c.Now
	addUser(t, a, "ann")
	seen, unseen := login(t, a, "ann"), login(t, a, "ann")
	wantSession(t, a, "seen", seen, nil)
	if err := pg.Stop(); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		c.Advance(DefaultCacheTTL + retryAfter)
		wantSession(t, a, "in memory, while PostgreSQL does not answer", seen, nil)
		a.sessions.checks.Wait()
		pause := a.sessions.retryAt.Load()
		c.Advance(retryAfter / 2)
		wantSession(t, a, "seen, in the pause after a check that failed", seen, nil)
		a.sessions.checks.Wait()
		if a.sessions.retryAt.Load() != pause {
			t.Error("PostgreSQL was asked again before the pause was over")
		}
	}
	if _, err := a.Session(t.Context(), unseen); err == nil || errors.Is(err, ErrNoSession) {
		t.Errorf("a session that is not in memory, while PostgreSQL does not answer: %v", err)
	}
	if n := logs.FilterMessageSnippet("cannot be checked").Len(); n != 1 {
		t.Errorf("%d lines say that sessions cannot be checked, want 1", n)
	}
}

func TestAnOldSessionIsCheckedInTheBackground(t *testing.T) {
	a := open(t, Options{CacheTTL: time.Minute})
	c := newClock()
	a.sessions.now = c.Now
	addUser(t, a, "ann")
	token := login(t, a, "ann")
	wantSession(t, a, "first", token, nil)
	storetest.Exec(t, a.store, `DELETE FROM sessions`)
	c.Advance(59 * time.Second)
	wantSession(t, a, "checked lately", token, nil)
	a.sessions.checks.Wait()
	wantSession(t, a, "checked lately", token, nil)
	c.Advance(2 * time.Second)
	wantSession(t, a, "the request that notices is answered from memory", token, nil)
	a.sessions.checks.Wait()
	wantSession(t, a, "after the check", token, ErrNoSession)
}

func TestABackgroundCheckUpdatesTheSession(t *testing.T) {
	a := open(t, Options{CacheTTL: time.Minute})
	c := newClock()
	a.sessions.now = c.Now
	addUser(t, a, "ann")
	token := login(t, a, "ann")
	wantSession(t, a, "first", token, nil)
	hash, _ := hashToken(token)
	e := a.sessions.cache.get(&hash, 0)
	c.Advance(2 * time.Minute)
	wantSession(t, a, "old", token, nil)
	a.sessions.checks.Wait()
	if got := e.checked.Load(); got != c.Now().UnixNano() {
		t.Errorf("checked at %v, want now", time.Unix(0, got))
	}
	storetest.Exec(t, a.store, `UPDATE users SET role = 'admin'`)
	a.Resync()
	wantSession(t, a, "after a resync", token, nil)
	a.sessions.checks.Wait()
	if u, err := a.Session(t.Context(), token); err != nil || !u.Admin() {
		t.Errorf("Session = %+v, %v; want the new role", u, err)
	}
}

func TestALogoutElsewhereEndsTheSessionHere(t *testing.T) {
	dsn := devenv.PostgreSQL(t)
	here, there := openAt(t, dsn, Options{}), openAt(t, dsn, Options{})
	u := addUser(t, here, "ann")
	id := addWorkspace(t, here, u)
	token := login(t, here, "ann")
	ticket, err := here.Ticket(t.Context(), token, id, browserHash)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := there.Redeem(t.Context(), ticket, browserSecret, id)
	if err != nil {
		t.Fatal(err)
	}
	connected, revoked := make(chan struct{}), make(chan string, 10)
	go there.store.Listen(t.Context(), func() { close(connected) }, func(n postgres.Notification) {
		if n.Channel == postgres.ChannelRevoked {
			there.Revoked(n.SessionID)
			revoked <- n.SessionID
		}
	})
	<-connected
	wantSession(t, there, "before", token, nil)
	if _, err := there.WorkspaceSession(t.Context(), ws, id); err != nil {
		t.Fatal(err)
	}
	if err := here.Logout(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	<-revoked
	<-revoked
	wantSession(t, there, "after", token, ErrNoSession)
	if _, err := there.WorkspaceSession(t.Context(), ws, id); !errors.Is(err, ErrNoSession) {
		t.Errorf("the workspace's session, after: %v", err)
	}
}

func TestRevokingTheParentRemovesTheChildAtOnce(t *testing.T) {
	a := open(t, Options{})
	u := addUser(t, a, "ann")
	id := addWorkspace(t, a, u)
	token := login(t, a, "ann")
	ticket, err := a.Ticket(t.Context(), token, id, browserHash)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := a.Redeem(t.Context(), ticket, browserSecret, id)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.WorkspaceSession(t.Context(), ws, id); err != nil {
		t.Fatal(err)
	}
	hash, _ := hashToken(token)
	parent := a.sessions.cache.get(&hash, 0)
	a.Revoked(parent.id)
	for what, token := range map[string]string{"parent": token, "child": ws} {
		hash, _ := hashToken(token)
		if a.sessions.cache.get(&hash, 0) != nil {
			t.Errorf("the %s is still in memory", what)
		}
	}
}

// TestWhatWasReadBeforeARevocationIsNotKept: it may be the revoked session.
func TestWhatWasReadBeforeARevocationIsNotKept(t *testing.T) {
	c := newCache(100)
	h := accounts.TokenHash{1}
	generation := c.generation.Load()
	c.revoke("another")
	c.put(&h, accounts.Session{ID: "s", ExpiresIn: time.Hour}, generation, 1)
	if c.get(&h, 1) != nil {
		t.Error("kept")
	}
	c.put(&h, accounts.Session{ID: "s", ExpiresIn: time.Hour}, c.generation.Load(), 1)
	if c.get(&h, 1) == nil {
		t.Error("not kept")
	}
}

func TestTheCacheIsBoundedAndKeepsWhatIsUsed(t *testing.T) {
	const limit = 160
	c := newCache(limit)
	now := time.Now().UnixNano()
	hash := func(i int) *accounts.TokenHash {
		var h accounts.TokenHash
		binary.BigEndian.PutUint32(h[4:], uint32(i))
		h[0] = byte(i)
		return &h
	}
	size := func() (n int) {
		for i := range c.shards {
			n += len(c.shards[i].m)
		}
		return n
	}
	for i := range 10 * limit {
		now += int64(10 * time.Second)
		c.put(hash(i), accounts.Session{ExpiresIn: 24 * time.Hour}, 0, now)
		if c.get(hash(0), now) == nil {
			t.Fatalf("the session in constant use was evicted for number %d", i)
		}
	}
	if n := size(); n != limit {
		t.Errorf("%d entries, want %d", n, limit)
	}
	// If the other entries have expired, new ones evict those first.
	c = newCache(cacheShards * evictionSample)
	for i := range cacheShards * evictionSample {
		c.put(hash(i), accounts.Session{ExpiresIn: 24 * time.Hour}, 0, now)
	}
	for i := range cacheShards {
		e := c.get(hash(i), 0)
		e.expires = 1
		c.put(hash(1000*cacheShards+i), accounts.Session{ExpiresIn: 24 * time.Hour}, 0, now)
		if c.shard(hash(i)).m[*hash(i)] != nil {
			t.Errorf("entry %d was expired and stayed", i)
		}
	}
}

func TestOneQueryForAPageFullOfRequests(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	token := login(t, a, "ann")
	a.sessions.lookups <- struct{}{} // three of four places are taken
	a.sessions.lookups <- struct{}{}
	a.sessions.lookups <- struct{}{}
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() { wantSession(t, a, "at once", token, nil) })
	}
	wg.Wait()
	var made int
	for range 3 {
		<-a.sessions.lookups
	}
	for i := range a.sessions.cache.shards {
		made += len(a.sessions.cache.shards[i].m)
	}
	if made != 1 {
		t.Errorf("%d entries for one session", made)
	}
}

func TestNothingStartsAfterClose(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	token := login(t, a, "ann")
	wantSession(t, a, "before", token, nil)
	a.Close()
	a.Close()
	a.Resync()
	wantSession(t, a, "from memory", token, nil)
	if len(a.sessions.lookups) != 0 {
		t.Error("a look-up did not release its slot")
	}
}

func cached(t testing.TB) (*Auth, string) {
	a := New(nil, Options{})
	t.Cleanup(a.Close)
	token, hash := newToken()
	a.sessions.cache.put(&hash, accounts.Session{ID: "s", UserID: "u", Username: "ann", Role: RoleUser, ExpiresIn: time.Hour}, 0, time.Now().UnixNano())
	return a, token
}

// TestACachedSessionCostsNothing: looking up a cached session does not query PostgreSQL, because the store is nil, and
// makes no work for the garbage collector, because nothing is allocated.
func TestACachedSessionCostsNothing(t *testing.T) {
	a, token := cached(t)
	ctx := t.Context()
	var o opened
	if n := testing.AllocsPerRun(1000, func() {
		g, err := a.Grant(ctx, token)
		if err != nil || g.Username != "ann" || !g.Attach(&o.stream, &o) {
			t.Fatal(g, err)
		}
		o.stream.Detach()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := testing.AllocsPerRun(100, func() { a.Session(ctx, strings.Repeat("A", 10)) }); n > 1 {
		t.Errorf("junk: %v allocations", n)
	}
}

func BenchmarkSession(b *testing.B) {
	a, token := cached(b)
	ctx := b.Context()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := a.Session(ctx, token); err != nil {
				b.Error(err)
			}
		}
	})
}

// opened is an open request that reports its end.
type opened struct {
	stream Stream
	ended  chan struct{}
}

func (o *opened) End() { close(o.ended) }

// attach opens a request with a session.
func attach(t testing.TB, g Grant, err error) *opened {
	t.Helper()
	o := &opened{ended: make(chan struct{})}
	if err != nil || !g.Attach(&o.stream, o) {
		t.Fatalf("a request is not let in: %v", err)
	}
	t.Cleanup(o.stream.Detach)
	return o
}

func (o *opened) wait(t *testing.T, what string) {
	t.Helper()
	select {
	case <-o.ended:
	case <-time.After(wait.Timeout):
		t.Errorf("%s: the request is still open", what)
	}
}

func TestOpenRequestsEndWithTheMainSession(t *testing.T) {
	a := open(t, Options{})
	u := addUser(t, a, "ann")
	id := addWorkspace(t, a, u)
	token, other := login(t, a, "ann"), login(t, a, "ann")
	ticket, err := a.Ticket(t.Context(), token, id, browserHash)
	if err != nil {
		t.Fatal(err)
	}
	ws, err := a.Redeem(t.Context(), ticket, browserSecret, id)
	if err != nil {
		t.Fatal(err)
	}
	grant, err := a.Grant(t.Context(), token)
	main, over := attach(t, grant, err), attach(t, grant, err)
	over.stream.Detach()
	child, err := a.WorkspaceSession(t.Context(), ws, id)
	workspaces := attach(t, child, err)
	stays, err := a.Grant(t.Context(), other)
	another := attach(t, stays, err)
	if err := a.Logout(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	main.wait(t, "of the main session")
	workspaces.wait(t, "of the workspace's session")
	for what, o := range map[string]*opened{"of another session": another, "that was over": over} {
		select {
		case <-o.ended:
			t.Errorf("the request %s was ended", what)
		default:
		}
	}
	if grant.Attach(&over.stream, over) {
		t.Error("an ended session lets a request in")
	}
}

func TestOpenRequestsEndWhenTheSessionExpires(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	token := login(t, a, "ann")
	storetest.Exec(t, a.store, `UPDATE sessions SET expires_at = now() + interval '0.2 seconds'`)
	grant, err := a.Grant(t.Context(), token)
	attach(t, grant, err).wait(t, "expired")
	wantSession(t, a, "expired", token, ErrNoSession)
}

// TestOpenRequestsOfSessionsThatEndedUnnoticed: a session ends while notifications are missed. Its open requests end as
// soon as notifications are back.
func TestOpenRequestsOfSessionsThatEndedUnnoticed(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	token, other := login(t, a, "ann"), login(t, a, "ann")
	grant, err := a.Grant(t.Context(), token)
	gone := attach(t, grant, err)
	stays, err := a.Grant(t.Context(), other)
	still := attach(t, stays, err)
	hash, _ := hashToken(token)
	storetest.Exec(t, a.store, `DELETE FROM sessions WHERE token_hash = '\x`+hex.EncodeToString(hash[:])+`'`)
	a.Resync()
	gone.wait(t, "after a resync")
	a.sessions.checks.Wait()
	select {
	case <-still.ended:
		t.Error("the request of another session was ended")
	default:
	}
}

// TestASessionInUseIsNotEvicted: a session with an open request stays in memory, because a revocation looks for it
// there.
func TestASessionInUseIsNotEvicted(t *testing.T) {
	c := newCache(cacheShards)
	var h accounts.TokenHash
	e := c.put(&h, accounts.Session{ID: "s", ExpiresIn: time.Hour}, 0, 1)
	o := attach(t, e.grant(), nil)
	for i := range byte(20) {
		c.put(&accounts.TokenHash{0, i + 1}, accounts.Session{ID: "other", ExpiresIn: time.Hour}, 0, int64(time.Hour))
	}
	c.revoke("s")
	o.wait(t, "of a session that many followed")
}
