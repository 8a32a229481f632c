package plot

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
)

// TestSVG: every chart is well-formed, and stays within the picture.
func TestSVG(t *testing.T) {
	var many []Point
	for i := range 10_000 {
		many = append(many, Point{float64(i), float64(i % 7)})
	}
	for name, c := range map[string]Chart{
		"nothing":      {Title: "nothing"},
		"one point":    {Lines: []Line{{"a", []Point{{1, 1}}}}},
		"no values":    {Lines: []Line{{"a", []Point{{1, 0}, {2, 0}}}}},
		"many points":  {Title: `a "title" <&>`, Lines: []Line{{"<b>", many}}, Marks: []Mark{{5, "kill <x>"}}},
		"by logarithm": {Log: true, Lines: []Line{{"a", []Point{{0, 0}, {1, 1e6}}}}},
	} {
		text := c.SVG()
		if len(text) > 20_000 || strings.Contains(text, "NaN") || strings.Contains(text, "Inf") {
			t.Errorf("%s: %d bytes: %.2000s", name, len(text), text)
		}
		for d := xml.NewDecoder(strings.NewReader(text)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Errorf("%s: %v in %s", name, err, text)
				break
			}
		}
	}
}

// TestPeaks: a single high value is drawn, however many points there are.
func TestPeaks(t *testing.T) {
	points := make([]Point, 5000)
	for i := range points {
		points[i].X = float64(i)
	}
	points[1237].Y = 100
	c := Chart{Lines: []Line{{"a", points}}}
	x, y := c.axes()
	if got := path(points, x, y); !strings.Contains(got, " 44.0") {
		t.Errorf("the peak is not in %s", got)
	}
}

func TestTicks(t *testing.T) {
	for _, high := range []float64{1, 3, 7.3, 100, 12345, 2e9} {
		a := axis{high: high, to: 100}
		if n := len(a.ticks()); n < 3 || n > 6 {
			t.Errorf("%g has the ticks %v", high, a.ticks())
		}
	}
	if got := []string{short(0), short(950), short(1500), short(2e6), short(0.25)}; strings.Join(got, " ") != "0 950 1.5k 2M 0.25" {
		t.Error(got)
	}
	if at := (axis{low: 1, high: 100, to: 100, log: true}).place(10); math.Abs(at-50) > 0.1 {
		t.Error(at)
	}
}
