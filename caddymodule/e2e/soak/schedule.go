package soak

import (
	"math/rand/v2"
	"time"
)

// Planned is a fault that is going to happen. After is the time from the beginning of all faults to the beginning of
// this one.
type Planned struct {
	After  time.Duration
	Server string
	What   string
	Lasts  time.Duration
}

// Target is a server, or a group of servers of the same kind, with the faults that it may have.
type Target struct {
	Name string
	// Whats are its possible faults, such as [Kill].
	Whats []string
}

// The faults of servers.
const (
	// Kill ends a server at once; it is started again later.
	Kill = "SIGKILL"
	// Stop suspends a server, which later continues as if nothing had happened.
	Stop = "SIGSTOP"
	// Crash ends a part of a server; the server repairs itself.
	Crash = "crash"
)

// These bound the time between two faults, and how long a fault lasts. Some last long.
const (
	gapLeast, gapMost     = 2 * time.Second, 8 * time.Second
	lastsLeast, lastsMost = 200 * time.Millisecond, 5 * time.Second
	lastsLong             = 15 * time.Second
	longOnesIn            = 8
	// rest is how long a server is left alone after one fault before its next one begins.
	rest = 2 * time.Second
)

// Schedule chooses faults for a run in which faults happen for the duration d. Every target gets one fault before any
// target gets another one. A target never has two faults at the same time.
func Schedule(r *rand.Rand, d time.Duration, targets []Target) (all []Planned) {
	free := make(map[string]time.Duration)
	var turns []Target
	for at := gapLeast; at < d; at += between(r, gapLeast, gapMost) {
		if len(turns) == 0 {
			for _, i := range r.Perm(len(targets)) {
				turns = append(turns, targets[i])
			}
		}
		t := turns[0]
		turns = turns[1:]
		p := Planned{After: max(at, free[t.Name]), Server: t.Name, What: t.Whats[r.IntN(len(t.Whats))]}
		switch {
		case p.What == Crash:
		case r.IntN(longOnesIn) == 0:
			p.Lasts = between(r, lastsMost, lastsLong)
		default:
			p.Lasts = between(r, lastsLeast, lastsMost)
		}
		if p.After+p.Lasts > d {
			continue
		}
		free[t.Name] = p.After + p.Lasts + rest
		all = append(all, p)
	}
	return all
}

func between(r *rand.Rand, least, most time.Duration) time.Duration {
	return least + time.Duration(r.Int64N(int64(most-least)))
}
