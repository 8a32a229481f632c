package brand

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// color is red, green and blue, 0 to 1, as style sheets have them.
type color [3]float64

// colorPattern is six digits, with or without the mark that begins a comment in a Caddyfile.
var colorPattern = regexp.MustCompile(`^#?([0-9A-Fa-f]{6})$`)

// parseColor reads a color.
func parseColor(s string) (c color, err error) {
	m := colorPattern.FindStringSubmatch(s)
	if m == nil {
		return c, fmt.Errorf("%q is no color: write six hexadecimal digits for red, green and blue, such as 2456c8", s)
	}
	n, err := strconv.ParseUint(m[1], 16, 32)
	for i := range c {
		c[i] = float64(n>>(16-8*i)&255) / 255
	}
	return c, err
}

// String is how a style sheet has it.
func (c color) String() string {
	hex := func(x float64) int { return int(math.Round(255 * x)) }
	return fmt.Sprintf("#%02x%02x%02x", hex(c[0]), hex(c[1]), hex(c[2]))
}

// mix returns c with a share of another color in it.
func (c color) mix(other color, share float64) color {
	for i := range c {
		c[i] += (other[i] - c[i]) * share
	}
	return c
}

// luminance is the relative luminance of WCAG 2.
func (c color) luminance() float64 {
	linear := func(x float64) float64 {
		if x <= 0.04045 {
			return x / 12.92
		}
		return math.Pow((x+0.055)/1.055, 2.4)
	}
	return 0.2126*linear(c[0]) + 0.7152*linear(c[1]) + 0.0722*linear(c[2])
}

// contrast is the contrast ratio of WCAG 2, 1 to 21.
func contrast(a, b color) float64 {
	x, y := a.luminance(), b.luminance()
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

// readable is the least contrast of text, AA of WCAG 2, with some reserve for rounding.
const readable = 4.55

// theme is what the pages of one theme have: where the color stands on, and the most that it is moved to.
type theme struct {
	grounds []color // on which text in the color stands
	card    color   // of which the soft shade is made
	toward  color
	onIt    color // text on the color
	soft    float64
}

var (
	white, black = color{1, 1, 1}, color{}
	light        = theme{
		grounds: []color{white, must("f5f6f8"), must("eef0f4")}, card: white, toward: black, onIt: white, soft: 0.1,
	}
	dark = theme{
		grounds: []color{must("11151b"), must("1a2029"), must("232a35")}, card: must("1a2029"), toward: white,
		onIt: must("0b0f16"), soft: 0.12,
	}
)

// must is a color of the style sheets.
func must(s string) color {
	c, err := parseColor(s)
	if err != nil {
		panic(err)
	}
	return c
}

// shade is a color in one theme, text on it, and a soft ground on which text in the color stands.
type shade struct{ color, text, soft color }

// shades are those of both themes.
type shades struct{ light, dark shade }

// shadesOf returns the shades next to a color that people can read.
func shadesOf(c color) shades { return shades{light.shade(c), dark.shade(c)} }

// shade moves a color until text in it, and on it, can be read.
func (t theme) shade(c color) shade {
	const steps = 100
	var s shade
	for i := range steps + 1 {
		s.color = c.mix(t.toward, float64(i)/steps)
		s.text, s.soft = t.onIt, t.card.mix(s.color, t.soft)
		if s.readable(t) {
			break
		}
	}
	return s
}

// readable reports whether people can read it.
func (s shade) readable(t theme) bool {
	for _, ground := range append([]color{s.text, s.soft}, t.grounds...) {
		if contrast(s.color, ground) < readable {
			return false
		}
	}
	return true
}

// style is what overrides the style sheets: that of the dashboard and that of the pages of workspaces.
func (s shades) style() string {
	return ":root{" + s.light.variables() + "}\n@media(prefers-color-scheme:dark){:root{" + s.dark.variables() + "}}\n"
}

func (s shade) variables() string {
	return fmt.Sprintf("--accent:%[1]s;--accent-text:%[2]s;--accent-soft:%[3]s;--go:%[1]s;--on-go:%[2]s;--go-soft:%[3]s",
		s.color, s.text, s.soft)
}
