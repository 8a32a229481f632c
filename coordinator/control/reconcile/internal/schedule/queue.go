// Package schedule decides which calls of actuators ([Executor]) and which storage jobs ([Jobs]) run next if there are
// more of them than places.
//
// It owns the order: by priority, fairly among owners, and without starvation. It must not know what the calls and the
// jobs do, nor ask a backend or a database.
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
	// Normal ends something that others may wait for: a container, or an operation that has begun.
	Normal
	// Background is work that can wait.
	Background
	// Cleanup is the removal of remains.
	Cleanup
	classes
)

// Request is something that wants to run, or that runs.
type Request struct {
	// Owner is the user for whom it runs; empty if unknown.
	Owner string
	Class Class
	// Since is when it began to wait.
	Since time.Time
	// Key distinguishes entries that began to wait at the same time.
	Key string
}

// Served is when each class and each owner was last given a place. If the time is unknown, for example after a change
// of the leader, it counts as long ago.
type Served struct {
	classes [classes]time.Time
	owners  map[string]time.Time
}

// Note records that a request was allowed to run.
func (s *Served) Note(r Request, now time.Time) {
	s.classes[r.Class] = now
	if s.owners == nil {
		s.owners = make(map[string]time.Time)
	}
	s.owners[r.Owner] = now
}

// Queue is the running and the waiting work at one moment.
type Queue struct {
	// Limit is how many requests may run concurrently, and Free is how many may begin now. Free is less than what the
	// limit leaves if other processes may take places at the same moment.
	Limit, Free int
	// MaxWait is how long higher classes can go ahead of a waiting class. After that, one request of the waiting class
	// goes first.
	MaxWait          time.Duration
	Running, Waiting []Request
	Served           Served
}

// Next returns two lists of indexes of Waiting: the requests that may begin now, and the others in the order in which
// they will begin. It is pure. These are the rules:
//   - A higher class goes first. The last place is reserved for [Interactive], unless it is the only one; all
//     other places are for any class. So a person never waits for a whole series of background work.
//   - Within a class, the owner with the fewest running or earlier entries goes first, then the owner who was
//     served longest ago, and then the one who has waited longest. So no owner waits for all the work of another
//     one.
//   - If nothing of a class has begun for MaxWait, and one of its entries has waited for longer than that, this
//     entry goes before the higher classes. So nothing waits forever.
func (q Queue) Next(now time.Time) (begin, rest []int) {
	queues := q.queues()
	others, begun := 0, q.Served.classes
	for _, r := range q.Running {
		if r.Class != Interactive {
			others++
		}
	}
	for range q.Free {
		c := q.choose(now, &queues, others, begun)
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
	for _, queue := range queues {
		rest = append(rest, queue...)
	}
	return begin, rest
}

// choose returns the class of the next request, or classes if no request may begin.
func (q Queue) choose(now time.Time, queues *[classes][]int, others int, begun [classes]time.Time) Class {
	open := others < max(q.Limit-1, 1)
	for c := classes - 1; open && c > Interactive; c-- {
		if len(queues[c]) > 0 && now.Sub(begun[c]) > q.MaxWait && now.Sub(q.longest(queues[c])) > q.MaxWait {
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

// longest returns when the request that has waited longest began to wait.
func (q Queue) longest(queue []int) time.Time {
	first := q.Waiting[queue[0]].Since
	for _, i := range queue {
		if since := q.Waiting[i].Since; since.Before(first) {
			first = since
		}
	}
	return first
}

// queues returns the waiting requests of each class, in the order in which the rules of Next let their owners take
// turns.
func (q Queue) queues() (queues [classes][]int) {
	order := make([]int, len(q.Waiting))
	for i := range order {
		order[i] = i
	}
	older := func(a, b int) int {
		return cmp.Or(q.Waiting[a].Since.Compare(q.Waiting[b].Since), cmp.Compare(q.Waiting[a].Key, q.Waiting[b].Key))
	}
	slices.SortFunc(order, older)
	runs := make(map[string]int)
	for _, r := range q.Running {
		runs[r.Owner]++
	}
	var before [classes]map[string]int // how many of the owner run or go before
	share := make([]int, len(q.Waiting))
	for _, i := range order {
		r := q.Waiting[i]
		if before[r.Class] == nil {
			before[r.Class] = make(map[string]int)
		}
		share[i] = runs[r.Owner] + before[r.Class][r.Owner]
		before[r.Class][r.Owner]++
		queues[r.Class] = append(queues[r.Class], i)
	}
	served := func(i int) time.Time { return q.Served.owners[q.Waiting[i].Owner] }
	for _, queue := range queues {
		slices.SortStableFunc(queue, func(a, b int) int {
			return cmp.Or(cmp.Compare(share[a], share[b]), served(a).Compare(served(b)))
		})
	}
	return queues
}
