package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// The behaviour of the people is assumed, and each assumption is a field, because no product has published it.
// Published studies only show three things. Work begins within two hours around nine. An editor is used for half of a
// working day, in pieces of less than an hour. Most accounts of a large installation are rarely used.

// Kind is a part of the workspaces, whose users behave alike.
type Kind struct {
	Name string
	// Share is how many of all workspaces are of this kind, and Used how many of them are used on a
	// working day.
	Share, Used float64
}

// People describes who uses the workspaces of an installation, and how.
type People struct {
	Kinds []Kind
	// Zones are the time zones in hours from that of the installation, with their shares.
	Zones []Zone
	// Begin and End are the hours of the day when the first session begins and the last one ends, with their
	// deviations. Lunch begins around its hour and takes an hour.
	Begin, BeginDeviation, End, EndDeviation, Lunch float64
	// Session and Pause are the medians of the working time between two pauses and of the pauses, both with the
	// deviation of their logarithms.
	Session, Pause             time.Duration
	SessionSpread, PauseSpread float64
	// HomeBytes is the median size of a home when it is packed, with the deviation of its logarithm.
	HomeBytes, HomeSpread float64
}

// Zone is a time zone.
type Zone struct{ Hours, Share float64 }

// Office are the people of one region, who begin at the same time: the hardest case.
func Office() People {
	return People{
		Kinds: []Kind{{"regular", 0.30, 0.80}, {"now and then", 0.30, 0.15}, {"rare", 0.40, 0.005}},
		Zones: []Zone{{-1, 0.2}, {0, 0.6}, {1, 0.2}},
		Begin: 9.25, BeginDeviation: 0.85, End: 17.75, EndDeviation: 1.2, Lunch: 12.25,
		Session: 42 * time.Minute, SessionSpread: 0.9, Pause: 11 * time.Minute, PauseSpread: 1.2,
		HomeBytes: 150e6, HomeSpread: 1.1,
	}
}

// session is one session of work, in seconds since the first day began.
type session struct{ begin, end int32 }

// day returns the sessions of a person on the working day of that number.
func (p People) day(r *rand.Rand, day int) (all []session) {
	zone := p.zone(r)
	at := func(hour, deviation float64) float64 {
		return (float64(day)*24 + hour + deviation*r.NormFloat64() - zone) * 3600
	}
	begin, end, lunch := at(p.Begin, p.BeginDeviation), at(p.End, p.EndDeviation), at(p.Lunch, 0.4)
	for now := begin; now < end; {
		until := min(now+spread(r, p.Session.Seconds(), p.SessionSpread), end)
		if now < lunch && until > lunch {
			until = lunch
		}
		if until-now >= 1 && now >= 0 {
			all = append(all, session{int32(now), int32(until)})
		}
		pause := spread(r, p.Pause.Seconds(), p.PauseSpread)
		if until == lunch {
			pause = 3600
		}
		now = until + pause
	}
	return all
}

func (p People) zone(r *rand.Rand) float64 {
	at := r.Float64()
	for _, z := range p.Zones {
		if at -= z.Share; at < 0 {
			return z.Hours
		}
	}
	return 0
}

// spread is a random value with that median, whose logarithm has that deviation.
func spread(r *rand.Rand, median, deviation float64) float64 {
	return median * math.Exp(deviation*r.NormFloat64())
}
