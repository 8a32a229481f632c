package explain

import (
	"strconv"
	"time"

	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Progress says how far a storage job has come, without a full stop. It names the job's step, how much of the step is
// done, and how long the rest will take, as far as known.
func Progress(p workspace.JobProgress) words.Text {
	key, much := "job."+p.Step, amount(p)
	switch {
	case !words.Has(key): // another release's job knows it
		return much
	case much.Empty():
		return words.Of(key, nil)
	}
	return words.Of("amount.of_step", words.Values{"Step": words.Of(key, nil), "Amount": much})
}

// amount says how much of a step is done, how fast, and how long the rest takes, such as
// "63 MB of 100 MB · 1.0 MB/s · 37 s left". It is empty if nothing is known.
func amount(p workspace.JobProgress) words.Text {
	out := doneOf(p.Done, p.Total)
	if out.Empty() {
		return out
	}
	if p.Rate > 0 {
		out = words.Of("amount.rate", words.Values{"Amount": out, "Rate": size(p.Rate)})
	}
	if left, known := p.Left(); known {
		out = words.Of("amount.left", words.Values{"Amount": out, "Left": remaining(left)})
	}
	return out
}

// doneOf says how many bytes of a total are done, without the total if that is unknown or too small. It is empty if
// nothing is known.
func doneOf(done, total int64) words.Text {
	switch {
	case total > 0 && total >= done:
		return words.Of("amount.done_of", words.Values{"Done": size(done), "Total": size(total)})
	case done > 0:
		return words.Of("amount.so_far", words.Values{"Done": size(done)})
	}
	return nil
}

// size formats a number of bytes for a sentence, with three digits and in powers of 1,000.
func size(n int64) string {
	value, unit := float64(n), 0
	units := []string{"B", "kB", "MB", "GB", "TB"}
	for value >= 999.5 && unit < len(units)-1 {
		value, unit = value/1000, unit+1
	}
	digits := 0
	if unit > 0 && value < 9.95 {
		digits = 1
	}
	return strconv.FormatFloat(value, 'f', digits, 64) + " " + units[unit]
}

// remaining formats the remaining time for use in a sentence. It rounds up, so that the time is never stated too short.
func remaining(d time.Duration) words.Text {
	seconds := int((d + time.Second - 1) / time.Second)
	minutes := (seconds + 59) / 60
	switch {
	case seconds < 60:
		return words.Of("amount.seconds", words.Values{"Seconds": seconds})
	case minutes < 60:
		return words.Of("amount.minutes", words.Values{"Minutes": minutes})
	}
	return words.Of("amount.hours", words.Values{"Hours": minutes / 60, "Minutes": minutes % 60})
}
