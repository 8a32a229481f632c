package auth

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/workspace"
)

// cache holds sessions by the hash of their token. A lookup takes one read lock of one shard and does not allocate.
//
// Before a revocation returns, it must have removed the sessions with an id and those whose parent has that id. That
// includes a session whose row is being read at that moment. No library's cache does this, because their guarantees
// about iteration during writes are weaker.
type cache struct {
	shards [cacheShards]shard
	// perShard bounds each shard.
	perShard int
	// generation counts revocations. If a session was read from PostgreSQL before a revocation and would be added after
	// it, it is not kept, because it may be the revoked one.
	generation atomic.Uint64
}

// cacheShards is the number of locks. There are enough of them that concurrent requests of different sessions rarely
// compete for one.
const cacheShards = 16

// shard is a part of the cache with its own lock.
type shard struct {
	mu sync.RWMutex
	m  map[accounts.TokenHash]*entry
}

// entry is one session. Its immutable fields are read without a lock.
type entry struct {
	user User
	// id is the session's id; parent is the id of the main session to which it belongs, if any.
	id, parent string
	// workspace is empty for a main session.
	workspace workspace.ID
	// expires is when the session ends. Like all times here, it is in nanoseconds by [sessions.now].
	expires int64
	// checked is when PostgreSQL last confirmed the session, and used is when it was last used.
	checked, used atomic.Int64
	checking      atomic.Bool // a background check is running
	// life holds the requests that are open with the session. An entry that replaces this one takes over its life.
	life *life
}

// grant returns the grant that admits requests with this session.
func (e *entry) grant() Grant { return Grant{e.user, e.life} }

// usedStep is the resolution of used. It is not finer, because a store per request would move the cache line from one
// processor to another each time.
const usedStep = int64(time.Second)

// newCache returns a cache for about limit sessions.
func newCache(limit int) *cache {
	c := &cache{perShard: max(1, limit/cacheShards)}
	for i := range c.shards {
		c.shards[i].m = make(map[accounts.TokenHash]*entry)
	}
	return c
}

// shard returns the shard of a token. Hashes are uniform, so their first byte suffices.
func (c *cache) shard(h *accounts.TokenHash) *shard { return &c.shards[h[0]%cacheShards] }

// get returns the live entry of a token, or nil.
func (c *cache) get(h *accounts.TokenHash, now int64) *entry {
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

// drop removes an ended session, and ends everything that is open with it.
func (c *cache) drop(h *accounts.TokenHash, e *entry) {
	s := c.shard(h)
	s.mu.Lock()
	if now := s.m[*h]; now != nil && now.life == e.life {
		delete(s.m, *h)
	}
	s.mu.Unlock()
	e.life.end()
}

// put adds a session that was read at the time now, when the cache's generation was generation. If any session was
// revoked since, put returns nil, because the revoked one may be this session. It makes room by removing an expired or
// long unused session.
func (c *cache) put(h *accounts.TokenHash, v accounts.Session, generation uint64, now int64) *entry {
	e := &entry{
		user: userOf(v),
		id:   v.ID, parent: v.ParentID, workspace: v.WorkspaceID, expires: now + int64(v.ExpiresIn),
	}
	e.checked.Store(now)
	e.used.Store(now)
	s := c.shard(h)
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.generation.Load() != generation {
		return nil
	}
	known := s.m[*h]
	switch {
	case known != nil:
		e.life = known.life
	case len(s.m) >= c.perShard:
		s.makeRoom(now)
	}
	if e.life == nil {
		e.life = newLife(cmp.Or(v.ParentID, v.ID), scopesOf(v.Scopes))
		hash := *h
		e.life.expireAfter(v.ExpiresIn, func() { c.drop(&hash, e) })
	}
	s.m[*h] = e
	return e
}

// evictionSample is how many entries are compared for eviction. The iteration over a map in Go begins at a random
// place, so a few entries represent all.
const evictionSample = 8

// makeRoom looks at a sample of the entries, and removes an expired one or, if there is none, the one that has been
// unused for longest. It never removes entries with open requests, even if the limit is exceeded.
func (s *shard) makeRoom(now int64) {
	var victim accounts.TokenHash
	oldest, seen := int64(0), 0
	var evicted *entry
	for h, e := range s.m {
		used := e.used.Load()
		if e.expires <= now {
			used = 0
		}
		if (evicted == nil || used < oldest) && !e.life.inUse() {
			victim, oldest, evicted = h, used, e
		}
		if seen++; seen == evictionSample {
			break
		}
	}
	if evicted != nil {
		delete(s.m, victim)
		evicted.life.forget()
	}
}

// revoke removes sessions and the workspace sessions that belong to them, and ends everything that is open with them.
func (c *cache) revoke(ids ...string) {
	if len(ids) == 0 {
		return
	}
	ended := make(map[string]bool, len(ids))
	for _, id := range ids {
		ended[id] = true
	}
	c.revokeIf(func(e *entry) bool { return ended[e.id] || ended[e.parent] })
}

// revokeIf revokes the sessions for which f returns true.
func (c *cache) revokeIf(f func(*entry) bool) {
	c.generation.Add(1)
	var ended []*life
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.Lock()
		for h, e := range s.m {
			if f(e) {
				delete(s.m, h)
				ended = append(ended, e.life)
			}
		}
		s.mu.Unlock()
	}
	for _, l := range ended {
		l.end()
	}
}

// revokeToken is revoke for a caller that knows the token instead of the id.
func (c *cache) revokeToken(h accounts.TokenHash) {
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

// expireChecks makes every entry due for a check. Sessions that are being read at this moment are not added.
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

// ids returns the ids of the sessions in memory.
func (c *cache) ids() []string {
	var out []string
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		for _, e := range s.m {
			out = append(out, e.id)
		}
		s.mu.RUnlock()
	}
	return out
}

// forget stops the expiry timer of every session.
func (c *cache) forget() {
	for i := range c.shards {
		s := &c.shards[i]
		s.mu.RLock()
		for _, e := range s.m {
			e.life.forget()
		}
		s.mu.RUnlock()
	}
}
