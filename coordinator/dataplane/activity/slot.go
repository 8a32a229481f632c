package activity

import (
	"sync/atomic"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// retired is the time of a slot that is no longer in its buffer.
const retired = -1

// Slot is the newest time of activity of one workspace.
type Slot struct {
	buffer *Buffer
	id     workspace.ID
	// last is Unix milliseconds, 0 before the first touch, or retired.
	last atomic.Int64
	// input is that of the last touch by a person.
	input atomic.Int64
	// user made the last touch; nil if the user is not known.
	user atomic.Pointer[audit.Actor]
	// sent is the last value that Redis or PostgreSQL has confirmed, saved the last one
	// that PostgreSQL has; guarded by buffer.flushing.
	sent, saved int64
}

// Touch is [Slot.TouchBy] for a user who is not known.
func (s *Slot) Touch(by metrics.Signal) { s.TouchBy(by, nil) }

// TouchBy records that user uses the workspace now, as a signal says, unless [Options.Used] denies it. Within one step of
// the clock only the first call writes, is counted, and calls user.Actor. Many connections of one workspace share the slot, and
// reading it is ten times cheaper than contending for its cache line.
func (s *Slot) TouchBy(by metrics.Signal, user audit.Asker) {
	now := s.buffer.clock.Load()
	if s.last.Load() < now {
		if !s.buffer.opts.Used(s.id, user) {
			return
		}
		var actor *audit.Actor
		if user != nil {
			actor = new(user.Actor())
		}
		s.user.Store(actor)
	}
	if by.Person() && s.input.Load() < now {
		s.input.Store(now)
	}
	for {
		at := s.last.Load()
		if at == retired {
			s.buffer.revive(s, now, by, user)
			return
		}
		if at >= now {
			return
		}
		if s.advance(at, now) {
			s.buffer.opts.Metrics.Used(by)
			return
		}
	}
}

// advance moves the time from at to now, and reports whether it did. It is a swap, not a store.
// The slot may have been retired since at was read, and a store would write the time into a slot
// that is no longer read.
func (s *Slot) advance(at, now int64) bool { return s.last.CompareAndSwap(at, now) }

// revive puts a retired slot back, or passes its time on to the slot that has
// replaced it. A slot is retired and put back only under its part's lock, so one
// that is not in the map is retired.
func (b *Buffer) revive(s *Slot, now int64, by metrics.Signal, user audit.Asker) {
	p := b.part(s.id)
	p.mu.Lock()
	current := p.slots[s.id]
	if current == nil {
		p.slots[s.id] = s
		s.last.Store(now)
	}
	p.mu.Unlock()
	if current != nil {
		current.TouchBy(by, user)
		return
	}
	b.opts.Metrics.Used(by)
}
