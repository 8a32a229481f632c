package soak

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/plot"
)

// Fault is a fault of a server during a run.
type Fault struct {
	At     time.Time
	Server string
	// What is the kind of the fault, such as SIGKILL. Lasts is how long it lasted until the server was repaired.
	What  string
	Lasts time.Duration
}

// String returns the text for the fault in the log and beside its mark in the plots.
func (f Fault) String() string {
	if f.Lasts == 0 {
		return f.What + " " + f.Server
	}
	return fmt.Sprintf("%s %s for %.1f s", f.What, f.Server, f.Lasts.Seconds())
}

// Figure is one number of a report.
type Figure struct {
	Name  string
	Value float64
	Unit  string
}

// Report is the result of a run.
type Report struct {
	Title    string
	Seed     uint64
	Figures  []Figure
	Faults   []Fault
	Problems []string // what is wrong; none: the run has passed
	Recorder *Recorder
}

// Plots are the pictures of a report, in their order. Each plot shows all lines whose names begin with one of its
// prefixes.
var plots = []struct {
	title    string
	prefixes []string
}{
	{"Requests a second", []string{"requests/"}},
	{"Wakes a second", []string{"wakes/"}},
	{"Requests that wait for an answer", []string{"held/"}},
	{"Errors that users saw, a second", []string{"errors/"}},
	{"Workspaces by phase", []string{"phase/"}},
	{"Resident memory, MiB", []string{"rss/"}},
	{"Memory in use after a garbage collection, MiB", []string{"heap/"}},
	{"Goroutines", []string{"goroutines/"}},
	{"File handles", []string{"fds/"}},
	{"Connections of PostgreSQL and Redis", []string{"connections/"}},
}

// window is the period over which a plot combines times.
const window = 15

//go:embed report.html
var page string

var layout = template.Must(template.New("report").Funcs(template.FuncMap{
	"seconds": func(r *Recorder, at time.Time) string { return fmt.Sprintf("%.1f", r.At(at)) },
}).Parse(page))

// WriteHTML writes the report as a self-contained page.
func (r Report) WriteHTML(w io.Writer) error {
	var marks []plot.Mark
	for _, f := range r.Faults {
		marks = append(marks, plot.Mark{X: r.Recorder.At(f.At), Name: f.String()})
	}
	draw := func(title string, lines []plot.Line) template.HTML {
		return template.HTML(plot.Chart{Title: title, XName: "seconds", Lines: lines, Marks: marks}.SVG())
	}
	var charts []template.HTML
	for _, p := range plots {
		var lines []plot.Line
		for _, name := range r.Recorder.Names() {
			for _, prefix := range p.prefixes {
				if line, ok := strings.CutPrefix(name, prefix); ok {
					lines = append(lines, plot.Line{Name: line, Points: r.Recorder.Line(name)})
				}
			}
		}
		charts = append(charts, draw(p.title, lines))
	}
	charts = append(charts, draw("Time until a sleeping workspace shows its page, seconds", []plot.Line{
		{Name: "median", Points: r.Recorder.Percentiles("wake", 0.5, window)},
		{Name: "99 of 100", Points: r.Recorder.Percentiles("wake", 0.99, window)},
	}))
	if err := layout.Execute(w, struct {
		Report
		Charts []template.HTML
	}{r, charts}); err != nil {
		return fmt.Errorf("writing the report: %w", err)
	}
	return nil
}
