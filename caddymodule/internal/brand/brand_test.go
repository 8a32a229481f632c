package brand

import (
	"bytes"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestEveryColorCanBeRead checks, for every color and in both themes, that the contrast reaches WCAG AA for text in the
// color, for text on the color, and for other text on the color's soft shade. It also checks that the style sheets have
// the variables.
func TestEveryColorCanBeRead(t *testing.T) {
	texts := map[bool][]color{ // other text on the soft shade
		false: {must("1a212c"), must("566172")}, true: {must("e8ecf2"), must("a3afbf")},
	}
	for n := 0; n <= 0xffffff; n += 0x1234 - n%7 {
		c := must(fmt.Sprintf("%06x", n))
		for inDark, s := range map[bool]shade{false: shadesOf(c).light, true: shadesOf(c).dark} {
			th := light
			if inDark {
				th = dark
			}
			// The colors as a browser reads them, rounded.
			drawn, soft := must(s.color.String()), must(s.soft.String())
			for _, ground := range append([]color{s.text, soft}, th.grounds...) {
				if got := contrast(drawn, ground); got < 4.5 {
					t.Fatalf("%s, dark %t: %s on %s has %.2f", c, inDark, s.color, ground, got)
				}
			}
			for _, text := range texts[inDark] {
				if got := contrast(text, soft); got < 4.5 {
					t.Fatalf("%s, dark %t: %s on the soft %s has %.2f", c, inDark, text, s.soft, got)
				}
			}
		}
	}
	if s := shadesOf(must("2456c8")).light.color; s.String() != "#2456c8" {
		t.Errorf("a color that can be read becomes %s", s)
	}
	style := shadesOf(must("2456c8")).style()
	for file, variables := range map[string][]string{
		"../web/pages/style.css":        {"--go:", "--on-go:", "--go-soft:"},
		"../api/pages/static/style.css": {"--accent:", "--accent-text:", "--accent-soft:"},
	} {
		css, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range variables {
			if !bytes.Contains(css, []byte(name)) || strings.Count(style, name) != 2 {
				t.Errorf("%s of %s is not set in both themes", name, file)
			}
		}
		for _, ground := range append(append(light.grounds, dark.grounds...), texts[false][1], texts[true][1]) {
			if !bytes.Contains(css, []byte(ground.String())) && ground != white && !strings.Contains("#eef0f4 #232a35", ground.String()) {
				t.Errorf("%s has no %s any more", file, ground)
			}
		}
	}
}

func TestContrast(t *testing.T) {
	if got := contrast(white, black); got < 20.99 || got > 21.01 {
		t.Errorf("black on white has %f", got)
	}
	if got := contrast(must("767676"), white); got < 4.53 || got > 4.55 {
		t.Errorf("#767676 on white has %f", got)
	}
}

func TestWhatIsRefused(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for path, want := range map[string]string{
		file("good.svg", `<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg"/>`): "",
		file("good.png", "\x89PNG\r\n\x1a\n…"):                                             "",
		file("text.svg", "hello"):                                                          "neither an SVG nor a PNG: write the path of one",
		file("large.svg", strings.Repeat("<svg", LogoMax)):                                 "not a file of 65536 bytes or less: write the path",
		filepath.Join(dir, "none"):                                                         "write the path of an SVG or PNG file that this process can read",
		dir:                                                                                "not a file of",
	} {
		_, err := ReadLogo(path)
		if got := fmt.Sprint(err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
	for _, s := range []string{"", "red", "#12345", "1234567", "12345g", "#2456c8;}"} {
		if err := CheckColor(s); err == nil || !strings.Contains(err.Error(), "write six hexadecimal digits") {
			t.Errorf("the color %q: %v", s, err)
		}
	}
}

// TestALogoIsAnImage checks that the logo's path contains a hash of its content and may be cached permanently. It also
// checks that a logo runs no script when it is opened as a page.
func TestALogoIsAnImage(t *testing.T) {
	b, err := New("Acme", []byte(`<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>`), "#aabbcc")
	if err != nil {
		t.Fatal(err)
	}
	r := In(httptest.NewRequestWithContext(t.Context(), "GET", b.IconPath, nil), b)
	w := httptest.NewRecorder()
	if !Of(r).Serve(w, r) {
		t.Fatalf("%s is not served", b.IconPath)
	}
	h := w.Header()
	if policy := h.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "default-src 'none'") ||
		!strings.HasSuffix(policy, "sandbox") || strings.Contains(policy, "script-src") {
		t.Errorf("its policy is %q", policy)
	}
	if h.Get("Content-Type") != "image/svg+xml" || !strings.Contains(h.Get("Cache-Control"), "immutable") ||
		h.Get("X-Content-Type-Options") != "nosniff" {
		t.Errorf("it is served with %v", h)
	}
	if other := httptest.NewRequestWithContext(t.Context(), "GET", b.IconPath, nil); Of(other).Serve(w, other) || Of(other).Name != "CodeHub" {
		t.Error("another installation serves it, too")
	}
}
