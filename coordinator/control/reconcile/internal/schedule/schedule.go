// Package schedule decides who is next where many want to run and only some may: calls of
// actuators ([Turns]) and storage jobs ([Jobs]).
//
// It owns the order: by priority, fairly among owners, and without starvation. It must not
// know what the calls and the jobs do, nor ask a backend or a database.
package schedule

import (
	"cmp"
	"slices"
	"time"
)

// Class is the priority of a request. A lower number goes first.
type Class int

// The classes.
const (
	// Interactive is what a person waits for.
	Interactive Class = iota
	// Normal ends what others may wait for: a container, or an operation that was begun.
	Normal
	// Background is what has time.
	Background
	// Cleanup is what is left to be removed.
	Cleanup
	classes
)

// Request is something that wants to run, or that runs.
type Request struct {
	// Owner is the user that it is done for; empty if that is not known.
	Owner string
	Class Class
	// Since is when it began to wait.
	Since time.Time
	// Key tells it from others that began to wait at the same time.
	Key string
}

// Begun is when one of each class, and one of each owner, was last let run. What is not known,
// such as after a change of the leader, counts as long ago.
type Begun struct {
	classes [classes]time.Time
	owners  map[string]time.Time
}

// note takes down that one was let run.
func (b *Begun) note(r Request, now time.Time) {
	b.classes[r.Class] = now
	if b.owners == nil {
		b.owners = make(map[string]time.Time)
	}
	b.owners[r.Owner] = now
}

// Line is who runs and who waits at one moment.
type Line struct {
	// Limit is how many may run at once, and Free how many more may begin now. Free is less
	// than what is left of the limit if others may take places at the same moment.
	Limit, Free int
	// Patience is how long a class is passed over by higher ones: then one of it goes first.
	Patience         time.Duration
	Running, Waiting []Request
	Begun            Begun
}

// Next returns who of those that wait may begin now, and the others in the order in which
// they will, both as indexes of Waiting. It is pure. These are the rules:
//
//   - A higher class goes first. All but one of the places are for any class; the last one is
//     kept for [Interactive], unless there is only one: a person never waits for a whole
//     series of what has time.
//   - Within a class the owner goes first who has the fewest that run or go before, among equals
//     who was served longest ago, and then who has waited longest. So nobody waits for all that
//     another owner has.
//   - When of a class nothing has begun for as long as Patience, and somebody waits for longer
//     than that, one of it goes before the higher classes. So none waits for ever.
func (l Line) Next(now time.Time) (begin, rest []int) {
	queues := l.queues()
	others, begun := 0, l.Begun.classes
	for _, r := range l.Running {
		if r.Class != Interactive {
			others++
		}
	}
	for range l.Free {
		c := l.choose(now, &queues, others, begun)
		if c == classes {
			break
		}
		if c != Interactive {
			others++
		}
		begun[c] = now
		begin = append(begin, queues[c][0])
		queues[c] = queues[c][1:]
	}
	for _, q := range queues {
		rest = append(rest, q...)
	}
	return begin, rest
}

// choose returns the class of the next one, or classes if none may begin.
func (l Line) choose(now time.Time, queues *[classes][]int, others int, begun [classes]time.Time) Class {
	open := others < max(l.Limit-1, 1)
	for c := classes - 1; open && c > Interactive; c-- {
		if len(queues[c]) > 0 && now.Sub(begun[c]) > l.Patience && now.Sub(l.longest(queues[c])) > l.Patience {
			return c
		}
	}
	for c := range classes {
		if len(queues[c]) > 0 && (open || c == Interactive) {
			return c
		}
	}
	return classes
}

// longest returns since when the one has waited that has waited longest.
func (l Line) longest(queue []int) time.Time {
	first := l.Waiting[queue[0]].Since
	for _, i := range queue {
		if since := l.Waiting[i].Since; since.Before(first) {
			first = since
		}
	}
	return first
}

// queues returns those who wait, by class, in the order of their owners' shares.
func (l Line) queues() (queues [classes][]int) {
	order := make([]int, len(l.Waiting))
	for i := range order {
		order[i] = i
	}
	older := func(a, b int) int {
		return cmp.Or(l.Waiting[a].Since.Compare(l.Waiting[b].Since), cmp.Compare(l.Waiting[a].Key, l.Waiting[b].Key))
	}
	slices.SortFunc(order, older)
	runs := make(map[string]int)
	for _, r := range l.Running {
		runs[r.Owner]++
	}
	var before [classes]map[string]int // how many of the owner run or go before
	share := make([]int, len(l.Waiting))
	for _, i := range order {
		r := l.Waiting[i]
		if before[r.Class] == nil {
			before[r.Class] = make(map[string]int)
		}
		share[i] = runs[r.Owner] + before[r.Class][r.Owner]
		before[r.Class][r.Owner]++
		queues[r.Class] = append(queues[r.Class], i)
	}
	served := func(i int) time.Time { return l.Begun.owners[l.Waiting[i].Owner] }
	for _, q := range queues {
		slices.SortStableFunc(q, func(a, b int) int {
			return cmp.Or(cmp.Compare(share[a], share[b]), served(a).Compare(served(b)))
		})
	}
	return queues
}
