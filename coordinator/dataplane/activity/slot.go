package activity

import (
	"sync/atomic"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// retired is the value of a slot's time once the slot is no longer in its buffer.
const retired = -1

// Slot holds the newest time of activity of one workspace.
type Slot struct {
	buffer *Buffer
	id     workspace.ID
	// last is Unix milliseconds, 0 before the first touch, or retired.
	last atomic.Int64
	// input is the time of the last touch by a person.
	input atomic.Int64
	// user made the last touch; nil if unknown.
	user atomic.Pointer[audit.Actor]
	// sent is the last time that Redis or PostgreSQL has confirmed. saved is the last time that PostgreSQL has. Both
	// are guarded by buffer.flushing.
	sent, saved int64
}

// Touch is [Slot.TouchBy] for an unknown user.
func (s *Slot) Touch(by metrics.Signal) { s.TouchBy(by, nil) }

// TouchBy records that user uses the workspace now, unless [Options.Used] denies it. by is the signal that shows the
// use. Within one step of the clock only the first call writes, is counted, and calls user.Actor. This is so because
// many connections of one workspace share the slot, and reading it is ten times cheaper than contending for its cache
// line.
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

// advance moves the time from at to now, and reports whether it did. It swaps instead of storing, because the slot may
// have been retired since at was read. A store would then write the time into a slot that nothing reads any more.
func (s *Slot) advance(at, now int64) bool { return s.last.CompareAndSwap(at, now) }

// revive puts a retired slot back, or passes its time on to the slot that has replaced it. Slots are retired and put
// back only under the lock of their part of the buffer. So if no slot of the workspace is in the map, s is still
// retired.
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
