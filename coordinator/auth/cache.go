package auth

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// cache holds sessions by the hash of their token. A look-up takes one read lock of
// one shard and allocates nothing.
//
// No library's cache does this: a revocation must remove every session with an id or a
// parent before it returns, including one whose row is being read at that moment.
// Libraries guarantee less about an iteration during writes.
type cache struct {
	shards [cacheShards]shard
	// perShard bounds each shard.
	perShard int
	// generation counts revocations: a session that was read from PostgreSQL before a
	// revocation and arrives after it is not kept, because it may be the revoked one.
	generation atomic.Uint64
}

// cacheShards is the number of locks: enough that concurrent requests of different
// sessions rarely meet at one.
const cacheShards = 16

// shard is a part of the cache with its own lock.
type shard struct {
	mu sync.RWMutex
	m  map[store.TokenHash]*entry
}

// entry is one session. Its immutable fields are read without a lock.
type entry struct {
	user User
	// id is the session's, parent the main session's that it belongs to, if any.
	id, parent string
	// workspace is empty for a main session.
	workspace workspace.ID
	expires   int64 // Unix nanoseconds, as all times here
	// checked is when PostgreSQL last confirmed the session, used its last use.
	checked, used atomic.Int64
	checking      atomic.Bool // a background check runs
}

// usedStep is the resolution of used: a store per request would move the cache line
// from one processor to another each time.
const usedStep = int64(time.Second)

// newCache returns a cache for about limit sessions.
func newCache(limit int) *cache {
	c := &cache{perShard: max(1, limit/cacheShards)}
	for i := range c.shards {
		c.shards[i].m = make(map[store.TokenHash]*entry)
	}
	return c
}

// shard returns the shard of a token. Hashes are uniform, so their first byte
// suffices.
func (c *cache) shard(h *store.TokenHash) *shard { return &c.shards[h[0]%cacheShards] }

// get returns the live entry of a token, or nil.
func (c *cache) get(h *store.TokenHash, now int64) *entry {
	s := c.shard(h)
	s.mu.RLock()
	e := s.m[*h]
	s.mu.RUnlock()
	if e == nil {
		return nil
	}
	if e.expires <= now {
		c.drop(h, e)
		return nil
	}
	if now-e.used.Load() > usedStep {
		e.used.Store(now)
	}
	return e
}

// drop removes e, unless another entry has replaced it in the meantime.
func (c *cache) drop(h *store.TokenHash, e *entry) {
	s := c.shard(h)
	s.mu.Lock()
	if s.m[*h] == e {
		delete(s.m, *h)
	}
	s.mu.Unlock()
}

// put adds a session that was read when generation was as given, unless a session
// was revoked since. It makes room by removing an expired or long unused one.
func (c *cache) put(h *store.TokenHash, v store.Session, generation uint64, now int64) *entry {
	e := &entry{
		user: userOf(v),
		id:   v.ID, parent: v.ParentID, workspace: v.WorkspaceID, expires: v.ExpiresAt.UnixNano(),
	}
	e.checked.Store(now)
	e.used.Store(now)
	s := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.generation.Load() != generation {
		return e
	}
	if _, known := s.m[*h]; !known && len(s.m) >= c.perShard {
		s.makeRoom(now)
	}
	s.m[*h] = e
	return e
}

// evictionSample is how many entries are compared for eviction. Go's maps begin
// their iteration at random, so a few entries represent all.
const evictionSample = 8

// makeRoom removes an expired entry of the sample, or the one unused for longest.
func (s *shard) makeRoom(now int64) {
	var victim store.TokenHash
	oldest, seen := int64(0), 0
	for h, e := range s.m {
		used := e.used.Load()
		if e.expires <= now {
			used = 0
		}
		if seen == 0 || used < oldest {
			victim, oldest = h, used
		}
		if seen++; seen == evictionSample {
			break
		}
	}
	delete(s.m, victim)
}

// revoke removes a session and the sessions of workspaces that belong to it.
func (c *cache) revoke(sessionID string) {
	c.generation.Add(1)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for h, e := range s.m {
			if e.id == sessionID || e.parent == sessionID {
				delete(s.m, h)
			}
		}
		s.mu.Unlock()
	}
}

// revokeToken is revoke for a caller that knows the token instead of the id.
func (c *cache) revokeToken(h store.TokenHash) {
	s := c.shard(&h)
	s.mu.RLock()
	e := s.m[h]
	s.mu.RUnlock()
	if e != nil {
		c.revoke(e.id)
		return
	}
	c.generation.Add(1)
}

// expireChecks makes every entry due for a check, and keeps out sessions that are
// being read at the moment.
func (c *cache) expireChecks() {
	c.generation.Add(1)
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		for _, e := range s.m {
			e.checked.Store(0)
		}
		s.mu.RUnlock()
	}
}
