package simulate

import (
	"math"
	"math/rand/v2"
	"time"
)

// The behaviour of the people is assumed, because no product has published such data. Each assumption is a field.
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
	// Zones are the time zones of the people with their shares, in hours from the installation's time zone.
	Zones []Zone
	// Begin and End are the hours of the day at which the first session begins and the last one ends. They vary from
	// person to person by their standard deviations. Lunch begins around its hour and takes an hour.
	Begin, BeginDeviation, End, EndDeviation, Lunch float64
	// Session is the median of the working times between two pauses, and Pause is the median of the pauses. The spreads
	// are the standard deviations of their logarithms.
	Session, Pause             time.Duration
	SessionSpread, PauseSpread float64
	// HomeBytes is the median size of a packed home, and HomeSpread the standard deviation of its logarithm.
	HomeBytes, HomeSpread float64
}

// Zone is a time zone.
type Zone struct{ Hours, Share float64 }

// Office returns the people of one region. They all begin at about the same time, which is the hardest case.
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

// day returns the sessions of a person on the working day with that number.
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

// spread returns a random value. median is the median of such values, and deviation is the standard deviation of their
// logarithms.
func spread(r *rand.Rand, median, deviation float64) float64 {
	return median * math.Exp(deviation*r.NormFloat64())
}
