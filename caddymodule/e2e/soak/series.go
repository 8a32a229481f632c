package soak

import (
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/plot"
)

// Recorder collects the measurements of a run. It is safe for concurrent use. The name of a measurement says where it
// is drawn: "errors/timeout" is the line "timeout" in the plot "errors".
type Recorder struct {
	began  time.Time
	mu     sync.Mutex
	counts map[string]float64 // since the last [Recorder.Tick]
	totals map[string]float64
	lines  map[string][]plot.Point
	times  map[string][]timed
}

// timed is a duration, and the second of the run at which it was measured.
type timed struct{ at, seconds float64 }

// NewRecorder returns a recorder for a run that begins at began.
func NewRecorder(began time.Time) *Recorder {
	return &Recorder{began: began, counts: map[string]float64{}, totals: map[string]float64{}, lines: map[string][]plot.Point{}, times: map[string][]timed{}}
}

// Began is when the run began.
func (r *Recorder) Began() time.Time { return r.began }

// At returns how many seconds after the beginning of the run a moment is.
func (r *Recorder) At(moment time.Time) float64 { return moment.Sub(r.began).Seconds() }

// Count adds one to a count. [Recorder.Tick] draws it.
func (r *Recorder) Count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name]++
	r.totals[name]++
}

// Total returns the sum of all counts whose names begin with the prefix.
func (r *Recorder) Total(prefix string) (sum float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range r.totals {
		if strings.HasPrefix(name, prefix) {
			sum += n
		}
	}
	return sum
}

// Gauge records the value that something has now.
func (r *Recorder) Gauge(name string, now time.Time, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines[name] = append(r.lines[name], plot.Point{X: r.At(now), Y: value})
}

// Took records the duration of something that has just ended.
func (r *Recorder) Took(name string, now time.Time, d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.times[name] = append(r.times[name], timed{r.At(now), d.Seconds()})
}

// Tick turns the counts since the last tick into values per second. since is how long ago the last tick was. Once a
// name has been counted, its line continues, even while its value is 0.
func (r *Recorder) Tick(now time.Time, since time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, n := range r.counts {
		r.lines[name] = append(r.lines[name], plot.Point{X: r.At(now), Y: n / since.Seconds()})
		r.counts[name] = 0
	}
}

// Line returns the values with that name.
func (r *Recorder) Line(name string) []plot.Point {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines[name])
}

// Names returns the names of all values, in order.
func (r *Recorder) Names() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Sorted(maps.Keys(r.lines))
}

// Percentile returns a percentile, such as 0.99, of all durations recorded under a name, in seconds, and the number of
// these durations.
func (r *Recorder) Percentile(name string, part float64) (seconds float64, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return percentile(r.times[name], part), len(r.times[name])
}

// Percentiles returns the percentile of the durations in each window of that many seconds.
func (r *Recorder) Percentiles(name string, part, window float64) (points []plot.Point) {
	r.mu.Lock()
	defer r.mu.Unlock()
	by := map[float64][]timed{}
	for _, t := range r.times[name] {
		at := math.Floor(t.at/window) * window
		by[at] = append(by[at], t)
	}
	for _, at := range slices.Sorted(maps.Keys(by)) {
		points = append(points, plot.Point{X: at, Y: percentile(by[at], part)})
	}
	return points
}

func percentile(all []timed, part float64) float64 {
	if len(all) == 0 {
		return 0
	}
	var values []float64
	for _, t := range all {
		values = append(values, t.seconds)
	}
	slices.Sort(values)
	return values[min(len(values)-1, int(part*float64(len(values))))]
}

// Slope returns how much Y grows while X grows by 1. It is the median of the slopes between all pairs of points (the
// Theil–Sen estimator), so a few outliers do not change it. It is 0 for fewer than 3 points.
func Slope(points []plot.Point) float64 {
	if len(points) < 3 {
		return 0
	}
	// The pairs of this many points are enough for a good result, and can be computed quickly even after a run of
	// hours.
	const most = 400
	step := (len(points) + most - 1) / most
	var slopes []float64
	for i := 0; i < len(points); i += step {
		for j := i + step; j < len(points); j += step {
			if dx := points[j].X - points[i].X; dx > 0 {
				slopes = append(slopes, (points[j].Y-points[i].Y)/dx)
			}
		}
	}
	return middle(slopes)
}

func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	slices.Sort(values)
	return values[len(values)/2]
}

// Growth tells whether a value stayed flat. It returns by how much the value grew over the time of its points, and by
// how much it may grow: by a share of its median, or by least if that is more.
func Growth(points []plot.Point, share, least float64) (grew, may float64) {
	if len(points) < 3 {
		return 0, least
	}
	values := make([]float64, len(points))
	for i, p := range points {
		values[i] = p.Y
	}
	return Slope(points) * (points[len(points)-1].X - points[0].X), max(least, share*middle(values))
}
