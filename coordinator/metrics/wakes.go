package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Stage is a part of a wake-up, in the order of [stages].
type Stage uint8

// The stages. A wake-up is in one at a time.
const (
	Waiting Stage = iota
	Restoring
	Pulling
	Starting
	Answering

	// Stages is the number of stages.
	Stages = int(Answering) + 1
)

// WakeEnd is how a wake-up has ended, in the order of [wakeEnds].
type WakeEnd uint8

// The ends.
const (
	WakeReady WakeEnd = iota
	WakeFailed
	WakeRefused
	WakeGivenUp
	WakeStopped
)

// Wakes counts wake-ups. Its methods are safe for concurrent use, and do nothing on a nil receiver.
type Wakes struct {
	ended         series[prometheus.Counter]
	total, stages series[prometheus.Observer]
}

func newWakes(m *Metrics) *Wakes {
	return &Wakes{counters(m, "codehub_wakes_total"), histograms(m, "codehub_wake_duration_seconds"), histograms(m, "codehub_wake_stage_duration_seconds")}
}

// WakeUp is a wake-up that has ended.
type WakeUp struct {
	Client Client
	From   workspace.Phase
	End    WakeEnd
	Total  time.Duration
	// Stages is how long each stage took; 0 for a stage that was not reached.
	Stages [Stages]time.Duration
}

// Ended counts a wake-up. Its times count only if the workspace became ready.
func (w *Wakes) Ended(u *WakeUp) {
	if w == nil {
		return
	}
	from := wokenIn.index(string(u.From))
	w.ended.at(int(u.Client), from, int(u.End)).Inc()
	if u.End != WakeReady {
		return
	}
	w.total.at(int(u.Client), from).Observe(u.Total.Seconds())
	for stage, took := range u.Stages {
		if took > 0 {
			w.stages.at(int(u.Client), stage).Observe(took.Seconds())
		}
	}
}
