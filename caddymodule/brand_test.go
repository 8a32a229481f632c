package codehub

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestBrand: an operator sets a name, a logo and a color, and reloads. From then on, the pages of the main site show
// them, and so do our pages at the addresses of workspaces.
func TestBrand(t *testing.T) {
	in := install(t)
	in.routes = append([]map[string]any{{"handle": []map[string]any{{"handler": "codehub"}}}}, in.routes[0])
	logo := filepath.Join(t.TempDir(), "logo.svg")
	if err := os.WriteFile(logo, []byte(`<svg xmlns="http://www.w3.org/2000/svg"/>`), 0o600); err != nil {
		t.Fatal(err)
	}
	in.app["brand"] = map[string]any{"name": "Acme <Labs>", "logo": logo, "color": "#777777"}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	admin := in.signedIn("admin")
	const nothing = "/w/00000000-0000-4000-8000-000000000000/"
	for path, wanted := range map[string][]string{
		"/":        {" · Acme &lt;Labs&gt;</title>", `href="/assets/brand.`},
		"/login":   {" · Acme &lt;Labs&gt;</title>", `href="/assets/brand.`},
		"/nothing": {" · Acme &lt;Labs&gt;</title>", `src="data:image/svg&#43;xml;base64,`, "--go:#"},
		nothing:    {" · Acme &lt;Labs&gt;</title>", `src="data:image/svg&#43;xml;base64,`, "--go:#"},
	} {
		c := admin
		if path == "/login" {
			c = in.anyone()
		}
		page := c.Do("GET", path, nil, "Sec-Fetch-Mode: navigate")
		for _, want := range wanted {
			if !strings.Contains(string(page.Text), want) {
				t.Errorf("%s lacks %s: %d %s", path, want, page.StatusCode, page.Text)
			}
		}
		if strings.Contains(string(page.Text), "· CodeHub") {
			t.Errorf("%s is still CodeHub's", path)
		}
		for _, m := range regexp.MustCompile(`"(/assets/brand\.[^"]+)"`).FindAllSubmatch(page.Text, -1) {
			if a := in.anyone().Do("GET", string(m[1]), nil); a.StatusCode != 200 ||
				!strings.Contains(a.Header.Get("Content-Security-Policy"), "sandbox") {
				t.Errorf("%s of %s: %d %v", m[1], path, a.StatusCode, a.Header)
			}
		}
	}
	in.app["brand"] = map[string]any{"logo": logo + ".gone"}
	if err := in.load(); err == nil || !strings.Contains(err.Error(), `setting "brand logo"`) ||
		!strings.Contains(err.Error(), "write the path of an SVG or PNG file") {
		t.Errorf("without the file: %v", err)
	}
	delete(in.app, "brand")
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	if page := in.anyone().Do("GET", "/login", nil); !strings.Contains(string(page.Text), "· CodeHub</title>") {
		t.Errorf("without a brand: %s", page.Text)
	}
}
