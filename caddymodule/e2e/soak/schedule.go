package soak

import (
	"math/rand/v2"
	"time"
)

// Planned is a fault, and how long after the first possible moment it begins.
type Planned struct {
	After  time.Duration
	Server string
	What   string
	Lasts  time.Duration
}

// Target is a server, or several of a kind, with its possible faults.
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
	// Crash ends a part of a server, which repairs itself.
	Crash = "crash"
)

// The time between two faults, and how long one lasts. Some last long.
const (
	gapLeast, gapMost     = 2 * time.Second, 8 * time.Second
	lastsLeast, lastsMost = 200 * time.Millisecond, 5 * time.Second
	lastsLong             = 15 * time.Second
	longOnesIn            = 8
	// rest is how long a server has after one fault before its next one.
	rest = 2 * time.Second
)

// Schedule chooses faults for that long. Every target has its turn before any target has another one, and a target has
// one fault at a time.
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
