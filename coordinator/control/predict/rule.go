package predict

import (
	"fmt"
	"slices"
	"time"
)

const (
	// Weeks is how many weeks before the day count.
	Weeks = 4
	// came is on how many of the same weekdays in them the person must have come.
	came = 3
	// within is in what time of the day two thirds of the comings must lie.
	within = time.Hour
)

// Expectation is when a person is expected on a day.
type Expectation struct {
	// From is when the person has come soonest, without those days that are out of the ordinary, and Until latest.
	From, Until time.Time
	// Came is on how many days the person has come between these times, and Days of how many.
	Came, Days int
}

// Why says it in one sentence, for the history.
func (e Expectation) Why() string {
	return fmt.Sprintf("its owner came between %s and %s on %d of the last %d such days",
		e.From.Format("15:04"), e.Until.Format("15:04"), e.Came, e.Days)
}

// Expect says when a person is expected on a day, which begins at day in the time zone of its location, after the times of
// coming before it. TestExpect has a row for every case.
//
// The days are those weekdays of the last four weeks on which the person came three times at least: whatever a working week is,
// it is such a one. The day must be one of them. Two thirds of them must have their first coming within an hour of the clock.
// The person is expected from the beginning of the shortest such time on, until the last coming of that hour. A change of the clock moves nothing: people go by it.
func Expect(day time.Time, arrivals []time.Time) (e Expectation, expected bool) {
	first := make(map[int]time.Duration) // the first time of the clock, by how many days ago
	for _, at := range arrivals {
		at = at.In(day.Location())
		ago := int(date(day).Sub(date(at)) / (24 * time.Hour))
		clock := time.Duration(at.Hour())*time.Hour + time.Duration(at.Minute())*time.Minute
		if known, any := first[ago]; ago >= 1 && ago <= 7*Weeks && (!any || clock < known) {
			first[ago] = clock
		}
	}
	var on [7]int // how often, by how many weekdays before that of the day
	for ago := range first {
		on[ago%7]++
	}
	if on[0] < came {
		return e, false
	}
	var clocks []time.Duration
	for ago, clock := range first {
		if on[ago%7] >= came {
			clocks = append(clocks, clock)
		}
	}
	for _, n := range on {
		if n >= came {
			e.Days += Weeks
		}
	}
	slices.Sort(clocks)
	need := (2*e.Days + 2) / 3
	shortest := within + 1
	var from, until time.Duration
	for i := 0; i+need <= len(clocks); i++ {
		if span := clocks[i+need-1] - clocks[i]; span < shortest {
			shortest, from = span, clocks[i]
		}
	}
	if shortest > within {
		return Expectation{}, false
	}
	for _, clock := range clocks {
		if clock >= from && clock <= from+within {
			e.Came, until = e.Came+1, clock
		}
	}
	e.From, e.Until = onDay(day, from), onDay(day, until)
	return e, true
}

// date is the day of the calendar, as a time that can be subtracted.
func date(t time.Time) time.Time {
	y, m, d := t.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.UTC)
}

// onDay is a time of the clock on a day.
func onDay(day time.Time, clock time.Duration) time.Time {
	y, m, d := day.Date()
	return time.Date(y, m, d, 0, int(clock/time.Minute), 0, 0, day.Location())
}
