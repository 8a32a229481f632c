package settings

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/codehub/gateway/caddymodule/internal/brand"
	"github.com/codehub/gateway/caddymodule/internal/parse"
)

// Brand is the name, logo and color on the pages.
type Brand struct {
	// Name appears in the titles and headers of all pages. Default: `CodeHub`.
	Name Value `json:"name,omitempty"`
	// Logo is an SVG or PNG file of at most 64 KiB, preferably square, for the headers of all pages. It is
	// read at the start and at every reload. Default: CodeHub's own.
	Logo Value `json:"logo,omitempty"`
	// Color is the color of links and main buttons, six hexadecimal digits such as `2456c8`. Pages use the
	// nearest readable shades, one for light and one for dark pages. Default: CodeHub's own.
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

// brandTexts holds the settings of the brand as text.
type brandTexts struct{ name, logo, color string }

// checkBrandName refuses a name that does not fit in a header.
func checkBrandName(s string) error {
	if utf8.RuneCountInString(s) > brandNameMax || strings.ContainsFunc(s, unicode.IsControl) {
		return fmt.Errorf("%q is no name for a header: write one line of at most %d characters", s, brandNameMax)
	}
	return nil
}

// resolveBrand reads the logo. The brand stays nil if nothing is set.
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
