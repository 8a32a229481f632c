package settings

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Brand says whose installation the pages are of.
type Brand struct {
	// Name stands in the titles and headers of all pages. Default: `CodeHub`.
	Name Value `json:"name,omitempty"`
	// Logo is an SVG or PNG file of at most 64 KiB, best a square, for the headers of all pages. It is read at
	// the start and with every reload. Default: CodeHub's own.
	Logo Value `json:"logo,omitempty"`
	// Color is the color of links and main buttons, six hexadecimal digits such as `2456c8`. Pages use the shades
	// next to it that people can read, one for light and one for dark pages. Default: CodeHub's own.
	Color Value `json:"color,omitempty"`
}

// brandNameMax is how long a name may be, in characters: a header on a phone holds no more.
const brandNameMax = 40

// brandTable lists the settings of the brand.
func (a *App) brandTable(r *Resolved) []Setting {
	b, s := &a.Brand, &r.brand
	return []Setting{
		{"brand name", &b.Name, "", "", parse.Text(&s.name, checkBrandName)},
		{"brand logo", &b.Logo, "", "", parse.Text(&s.logo)},
		{"brand color", &b.Color, "", "", parse.Text(&s.color, brand.CheckColor)},
	}
}

// brandTexts are the settings of the brand as they are written.
type brandTexts struct{ name, logo, color string }

// checkBrandName refuses a name that no header can show.
func checkBrandName(s string) error {
	if utf8.RuneCountInString(s) > brandNameMax || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%q is no name for a header: write one line of at most %d characters", s, brandNameMax)
	}
	return nil
}

// resolveBrand reads the logo. The brand stays nil where nothing is set.
func (r *Resolved) resolveBrand() error {
	t := r.brand
	if t == (brandTexts{}) {
		return nil
	}
	var logo []byte
	var err error
	if t.logo != "" {
		if logo, err = brand.ReadLogo(t.logo); err != nil {
			return fmt.Errorf("setting %q: %w", "brand logo", err)
		}
	}
	r.Brand, err = brand.New(t.name, logo, t.color)
	return err
}
