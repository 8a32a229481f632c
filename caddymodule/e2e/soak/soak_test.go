package soak

import (
	"regexp"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/plot"
	"github.com/codehub/gateway/coordinator/seed"
)

// TestLeaks: each planted leak is named, and nothing else is.
func TestLeaks(t *testing.T) {
	before := Snapshot{"caddy-0 goroutines": 80, "rows users": 10, "rows history": 5, "containers": 0}
	allowed := []Allowance{
		{Name: regexp.MustCompile("goroutines$"), More: 12},
		{Name: regexp.MustCompile("^rows history$"), Any: true},
		{Name: regexp.MustCompile("^rows "), Less: true},
	}
	for _, tt := range []struct {
		name  string
		value float64
		want  string
	}{
		{"caddy-0 goroutines", 92, ""},
		{"caddy-0 goroutines", 93, "caddy-0 goroutines: 93, before 80"},
		{"caddy-0 goroutines", 20, ""},
		{"rows users", 11, "rows users: 11, before 10"},
		{"rows users", 9, "rows users: 9, before 10"},
		{"rows history", 500, ""},
		{"containers", 1, "containers: 1, before 0"},
		{"volumes", 1, "volumes: 1, before 0"},
	} {
		after := Snapshot{"caddy-0 goroutines": 80, "rows users": 10, "rows history": 5}
		after[tt.name] = tt.value
		if got := strings.Join(Leaks(before, after, allowed), "; "); got != tt.want {
			t.Errorf("%s %g: %q, want %q", tt.name, tt.value, got, tt.want)
		}
	}
	if got := Leaks(before, Snapshot{"caddy-0 goroutines": 80, "rows history": 5}, allowed); len(got) != 1 {
		t.Errorf("rows that are gone: %q", got)
	}
}

// TestGoroutines: a goroutine that does not end is found by the function that started it.
func TestGoroutines(t *testing.T) {
	profile := func() map[string]int {
		var text strings.Builder
		if err := pprof.Lookup("goroutine").WriteTo(&text, 1); err != nil {
			t.Fatal(err)
		}
		return Goroutines(text.String())
	}
	before := profile()
	end, waits := make(chan struct{}), make(chan struct{})
	defer close(end)
	for range 3 {
		go leak(waits, end)
		<-waits
	}
	grown := Grown(before, profile())
	if len(grown) != 1 || grown[0] != "+3 github.com/codehub/gateway/caddymodule/e2e/soak.leak" {
		t.Error(grown)
	}
}

func leak(waits chan<- struct{}, end <-chan struct{}) {
	waits <- struct{}{}
	<-end
}

// TestDiary: lost, torn, doubled, mixed-up and wrong lines are found.
func TestDiary(t *testing.T) {
	d := NewDiary()
	for i := range 4 {
		if line := d.Next(); i != 2 { // the third one is not acknowledged
			d.Written(line)
		}
	}
	d.WrittenFile("a", "sum")
	if d.Acknowledged() != 4 || !slices.Equal(d.Files(), []string{"a"}) {
		t.Fatal(d.Acknowledged(), d.Files())
	}
	good := map[string]string{"a": "sum"}
	for _, tt := range []struct {
		content string
		sums    map[string]string
		want    string // in the error; none: it is right
	}{
		{"line-1\nline-2\nline-4\n", good, ""},
		{"line-1\nline-2\nline-3\nline-4\n", good, ""},
		{"line-1\nline-2\nline-4\nline-3\n", good, ""}, // it waited in a connection
		{"line-1\nline-2\n", good, `lacks "line-4"`},
		{"line-2\nline-1\nline-4\n", good, "typed later"},
		{"line-1\nline-2\nline-2\nline-4\n", good, "twice"},
		{"line-1\nline-2\nli\nline-4\n", good, "never typed"},
		{"", good, `lacks "line-1"`},
		{"line-1\nline-2\nline-4\n", map[string]string{"a": "other"}, "sum of the file a"},
		{"line-1\nline-2\nline-4\n", nil, "sum of the file a"},
	} {
		err := d.Check(tt.content, tt.sums)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %v: %v, want %q", tt.content, tt.sums, err, tt.want)
		}
	}
}

// TestGrowth: a value that grows slowly but steadily is found to leak, even under noise of a fifth. A flat value with a
// few peaks is not found to leak.
func TestGrowth(t *testing.T) {
	r := seed.Source(1)
	var flat, grows []plot.Point
	for i := range 2000 {
		noise := 20 * r.Float64()
		if i%50 == 0 {
			noise += 500
		}
		flat = append(flat, plot.Point{X: float64(i), Y: 100 + noise})
		grows = append(grows, plot.Point{X: float64(i), Y: 100 + noise + 0.02*float64(i)})
	}
	if grew, may := Growth(flat, 0.15, 8); grew > may {
		t.Errorf("flat: it grew by %g of %g", grew, may)
	}
	if grew, may := Growth(grows, 0.15, 8); grew <= may || grew < 35 || grew > 45 {
		t.Errorf("grows: it grew by %g of %g", grew, may)
	}
	if grew, _ := Growth(flat[:2], 0.15, 8); grew != 0 {
		t.Error(grew)
	}
}

// TestReport: the page contains every plot, every problem and every fault, whatever text they contain.
func TestReport(t *testing.T) {
	began := time.Now()
	rec := NewRecorder(began)
	for i := range 30 {
		now := began.Add(time.Duration(i) * time.Second)
		rec.Count("requests/pages")
		rec.Count("errors/<timeout>")
		rec.Gauge("rss/caddy-0", now, 100)
		rec.Took("wake", now, time.Duration(i)*time.Second)
		rec.Tick(now, time.Second)
	}
	if p, n := rec.Percentile("wake", 0.5); p != 15 || n != 30 {
		t.Error(p, n)
	}
	if n := rec.Total("errors/"); n != 30 {
		t.Error(n)
	}
	var text strings.Builder
	if err := (Report{
		Title: "soak", Seed: 7, Recorder: rec, Problems: []string{"<lost>"}, Figures: []Figure{{"soak_requests", 30, "requests"}},
		Faults: []Fault{{began.Add(3 * time.Second), "redis", "SIGSTOP", 2 * time.Second}},
	}).WriteHTML(&text); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(text.String(), "<svg"); n != len(plots)+1 {
		t.Errorf("%d pictures", n)
	}
	for _, want := range []string{"SEED=7", "&lt;lost&gt;", "SIGSTOP redis for 2.0 s", "soak_requests", "&lt;timeout&gt;", "It has failed"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(text.String(), "http://") && strings.Count(text.String(), "http://") != strings.Count(text.String(), "http://www.w3.org") {
		t.Error("the page loads something from elsewhere")
	}
}

// TestSchedule: the same seed gives the same faults. Every target has some faults, and never two at the same time.
func TestSchedule(t *testing.T) {
	targets := []Target{{"a", []string{Kill, Stop}}, {"b", []string{Stop}}, {"c", []string{Crash}}}
	plan := func(number uint64) []Planned { return Schedule(seed.Source(number), 5*time.Minute, targets) }
	if !slices.Equal(plan(3), plan(3)) || slices.Equal(plan(3), plan(4)) {
		t.Error("the seed does not decide")
	}
	ends, hits := map[string]time.Duration{}, map[string]int{}
	for _, p := range plan(3) {
		if hits[p.Server]++; p.After < ends[p.Server] {
			t.Errorf("%s has a fault at %s, and the one before lasts until %s", p.Server, p.After, ends[p.Server])
		}
		if ends[p.Server] = p.After + p.Lasts; ends[p.Server] > 5*time.Minute {
			t.Errorf("a fault lasts until %s", ends[p.Server])
		}
	}
	for _, target := range targets {
		if hits[target.Name] < 10 {
			t.Errorf("%s has %d faults", target.Name, hits[target.Name])
		}
	}
}
