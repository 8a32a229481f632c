package brand

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
)

// color is red, green and blue, each from 0 to 1, encoded as in style sheets.
type color [3]float64

// colorPattern is six digits with an optional #. In a Caddyfile, # begins a comment, so the color is written there
// without it.
var colorPattern = regexp.MustCompile(`^#?([0-9A-Fa-f]{6})$`)

// parseColor reads six hexadecimal digits.
func parseColor(s string) (c color, err error) {
	m := colorPattern.FindStringSubmatch(s)
	if m == nil {
		return c, fmt.Errorf("%q is not a color: write six hexadecimal digits for red, green and blue, such as 2456c8", s)
	}
	n, err := strconv.ParseUint(m[1], 16, 32)
	for i := range c {
		c[i] = float64(n>>(16-8*i)&255) / 255
	}
	return c, err
}

// String returns the color as style sheets write it.
func (c color) String() string {
	hex := func(x float64) int { return int(math.Round(255 * x)) }
	return fmt.Sprintf("#%02x%02x%02x", hex(c[0]), hex(c[1]), hex(c[2]))
}

// mix returns c with a share of another color mixed in.
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

// contrast is the contrast ratio of WCAG 2, from 1 to 21.
func contrast(a, b color) float64 {
	x, y := a.luminance(), b.luminance()
	return (math.Max(x, y) + 0.05) / (math.Min(x, y) + 0.05)
}

// readable is the minimum contrast of text: level AA of WCAG 2, with some reserve for rounding.
const readable = 4.55

// theme holds the other colors that one theme of the pages combines with the brand's color.
type theme struct {
	grounds []color // the backgrounds of text in the color
	card    color   // the base of the soft shade
	toward  color   // black or white, toward which the color moves until it is readable
	onIt    color   // text on the color
	soft    float64 // the share of the color in the soft shade
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

// must parses a color that the style sheets use.
func must(s string) color {
	c, err := parseColor(s)
	if err != nil {
		panic(err)
	}
	return c
}

// shade is what one theme derives from a color: the color itself, the color of text on it, and a soft background for
// text in the color.
type shade struct{ color, text, soft color }

// shades are the shades for both themes.
type shades struct{ light, dark shade }

// shadesOf returns the readable shades that are nearest to a color.
func shadesOf(c color) shades { return shades{light.shade(c), dark.shade(c)} }

// shade moves a color until text in it, and text on it, is readable.
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

// readable reports whether all text in and on the color is readable.
func (s shade) readable(t theme) bool {
	for _, ground := range append([]color{s.text, s.soft}, t.grounds...) {
		if contrast(s.color, ground) < readable {
			return false
		}
	}
	return true
}

// style returns rules that override variables in two style sheets: the dashboard's, and the one of the gateway's pages.
func (s shades) style() string {
	return ":root{" + s.light.variables() + "}\n@media(prefers-color-scheme:dark){:root{" + s.dark.variables() + "}}\n"
}

func (s shade) variables() string {
	return fmt.Sprintf("--accent:%[1]s;--accent-text:%[2]s;--accent-soft:%[3]s;--go:%[1]s;--on-go:%[2]s;--go-soft:%[3]s",
		s.color, s.text, s.soft)
}
