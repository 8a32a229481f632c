// Package plot draws line charts as SVG, for reports and guides. A chart is self-contained: it includes its style,
// which is readable on light and on dark pages.
//
// It owns the look of charts, and nothing about their content. Programs must not import it.
package plot

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Point is one value. X is in the unit that the chart names, such as seconds since the beginning.
type Point struct{ X, Y float64 }

// Line contains the points of one thing, in the order of their X.
type Line struct {
	Name   string
	Points []Point
}

// Mark is something that happened at X. It is drawn as a thin line, whose title appears when the pointer is on it.
type Mark struct {
	X    float64
	Name string
}

// Chart is one picture with at most [MaxLines] lines.
type Chart struct {
	// Title names the subject and the unit. XName says what X is.
	Title, XName string
	Lines        []Line
	Marks        []Mark
	// Log draws the values on a logarithmic scale. Values below 1 are drawn as 1.
	Log bool
}

// MaxLines is how many lines have a color of their own.
const MaxLines = 8

// The size of a chart and of its margins in pixels.
const (
	width, height            = 760, 260
	left, right, top, bottom = 64, 12, 44, 36
	// maxPoints is how many points a line has at most: more than one point per pixel would not be visible.
	maxPoints = 600
)

// style is the same in every chart. The colors differ in lightness as well as in hue.
const style = `<style>
svg{font:12px system-ui,sans-serif}.g{stroke:#8884;fill:none}.m{stroke:#d3455b;opacity:.35}.l{fill:none;stroke-width:1.5}
text{fill:#444}.t{font-weight:600}.c0{--c:#1b6ec2}.c1{--c:#c25e00}.c2{--c:#2b8a3e}.c3{--c:#9c36b5}.c4{--c:#c92a2a}
.c5{--c:#0b7285}.c6{--c:#846200}.c7{--c:#5f5f6b}.l{stroke:var(--c)}.k{fill:var(--c)}
@media(prefers-color-scheme:dark){text{fill:#ccc}.c0{--c:#74b9ff}.c1{--c:#ffa94d}.c2{--c:#69db7c}.c3{--c:#da77f2}
.c4{--c:#ff8787}.c5{--c:#66d9e8}.c6{--c:#ffd43b}.c7{--c:#adb5bd}}
</style>`

// SVG returns the chart as one element. Its class names are the same in every chart, so several fit
// into one page.
func (c Chart) SVG() string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" role="img" aria-label="%s">`,
		width, height, html.EscapeString(c.Title))
	b.WriteString(style)
	fmt.Fprintf(&b, `<text class="t" x="%d" y="16">%s</text>`, left, html.EscapeString(c.Title))
	x, y := c.axes()
	for _, tick := range y.ticks() {
		at := y.place(tick)
		fmt.Fprintf(&b, `<path class="g" d="M%d %.1fH%d"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, at, width-right, left-6, at+4, short(tick))
	}
	for _, tick := range x.ticks() {
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`, x.place(tick), height-bottom+16, short(tick))
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d" text-anchor="end">%s</text>`, width-right, height-4, html.EscapeString(c.XName))
	for _, m := range c.Marks {
		fmt.Fprintf(&b, `<path class="m" d="M%.1f %dV%d"><title>%s</title></path>`,
			x.place(m.X), top, height-bottom, html.EscapeString(m.Name))
	}
	key := left
	for i, l := range c.Lines {
		fmt.Fprintf(&b, `<g class="c%d"><path class="l" d="%s"/><rect class="k" x="%d" y="26" width="10" height="4"/>`,
			i%MaxLines, path(l.Points, x, y), key)
		fmt.Fprintf(&b, `<text x="%d" y="32">%s</text></g>`, key+14, html.EscapeString(l.Name))
		key += 26 + 7*len(l.Name)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

// path returns a line's shape. If the line has more points than a chart shows, path draws only the highest of every n
// points.
func path(points []Point, x, y axis) string {
	var b strings.Builder
	step := max(1, (len(points)+maxPoints-1)/maxPoints)
	for i := 0; i < len(points); i += step {
		p := points[i]
		for _, other := range points[i:min(i+step, len(points))] {
			if other.Y > p.Y {
				p = other
			}
		}
		fmt.Fprintf(&b, "%c%.1f %.1f", "ML"[min(i, 1)], x.place(p.X), y.place(p.Y))
	}
	return b.String()
}

// axis turns values into pixels.
type axis struct {
	low, high float64 // values
	from, to  float64 // pixels
	log       bool
}

func (c Chart) axes() (x, y axis) {
	x = axis{low: math.Inf(1), high: math.Inf(-1), from: left, to: width - right}
	y = axis{low: 0, high: 0, from: height - bottom, to: top, log: c.Log}
	for _, l := range c.Lines {
		for _, p := range l.Points {
			x.low, x.high, y.high = min(x.low, p.X), max(x.high, p.X), max(y.high, p.Y)
		}
	}
	if x.low >= x.high { // there are no two points
		x.low, x.high = 0, 1
	}
	if y.high <= 0 {
		y.high = 1
	}
	if y.log {
		y.low, y.high = 1, max(10, y.high)
	}
	return x, y
}

func (a axis) place(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		low, high, v = 0, math.Log10(high), math.Log10(max(1, v))
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// ticks are round values, four or five of them.
func (a axis) ticks() (all []float64) {
	if a.log {
		for v := 1.0; v <= a.high; v *= 10 {
			all = append(all, v)
		}
		return all
	}
	step := math.Pow(10, math.Floor(math.Log10((a.high-a.low)/4)))
	for _, times := range []float64{1, 2, 2.5, 5, 10} {
		if (a.high-a.low)/(step*times) <= 5 {
			step *= times
			break
		}
	}
	for v := math.Ceil(a.low/step) * step; v <= a.high+step/1000; v += step {
		all = append(all, v)
	}
	return all
}

// short writes a number with at most three digits and a suffix.
func short(v float64) string {
	for _, unit := range []struct {
		size   float64
		suffix string
	}{{1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.size {
			return strconv.FormatFloat(v/unit.size, 'g', 3, 64) + unit.suffix
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64)
}
