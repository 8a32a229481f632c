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

// Recorder collects the measurements of a run. It is safe for concurrent use. Its names are those of plots:
// "errors/timeout" is the line "timeout" of the plot "errors".
type Recorder struct {
	began  time.Time
	mu     sync.Mutex
	counts map[string]float64 // since the last [Recorder.Tick]
	totals map[string]float64
	lines  map[string][]plot.Point
	times  map[string][]timed
}

// timed is a duration, measured at that second.
type timed struct{ at, seconds float64 }

// NewRecorder returns a recorder whose run begins now.
func NewRecorder(began time.Time) *Recorder {
	return &Recorder{began: began, counts: map[string]float64{}, totals: map[string]float64{}, lines: map[string][]plot.Point{}, times: map[string][]timed{}}
}

// Began is when the run began.
func (r *Recorder) Began() time.Time { return r.began }

// At is how many seconds after the beginning a moment is.
func (r *Recorder) At(moment time.Time) float64 { return moment.Sub(r.began).Seconds() }

// Count adds one to a count that [Recorder.Tick] draws.
func (r *Recorder) Count(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[name]++
	r.totals[name]++
}

// Total is the sum of all counts whose names have that prefix.
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

// Gauge records a present value.
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

// Tick turns the counts since the last tick into values per second, given how long ago that tick was. A name that was
// counted once is drawn from then on, even where it is 0.
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

// Percentile returns that percentile, such as 0.99, of all durations of a name in seconds, and their number.
func (r *Recorder) Percentile(name string, part float64) (seconds float64, n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return percentile(r.times[name], part), len(r.times[name])
}

// Percentiles returns the same for each window of that many seconds.
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

// Slope is how much Y grows per 1 of X: the median of the slopes between all pairs of points (Theil and Sen), which a
// few outliers do not move. It is 0 for fewer than 3 points.
func Slope(points []plot.Point) float64 {
	if len(points) < 3 {
		return 0
	}
	// The pairs of this many points are enough, and few enough for hours.
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

// Growth judges whether a value stayed flat: it returns how much it grew over the time of its points, and how much it
// may grow: a share of its median, and no less than least.
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
