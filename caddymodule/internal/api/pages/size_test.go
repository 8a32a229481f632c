package pages

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"net/http/httptest"
	"testing"
)

// maxCompressed bounds the total compressed size of the pages and all their assets, in bytes.
const maxCompressed = 100_000

// A phone on a slow network loads everything visible within seconds.
func TestEverythingTogetherIsSmall(t *testing.T) {
	p, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	add := func(body []byte) {
		var out bytes.Buffer
		w := gzip.NewWriter(&out)
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		total += out.Len()
	}
	for _, a := range p.byPath {
		add(a.body)
	}
	r := httptest.NewRequestWithContext(t.Context(), "GET", "/", nil)
	page := httptest.NewRecorder()
	if err := p.ShowDashboard(page, r, Dashboard{Role: "admin", Sessions: true, Passwords: true, SignOut: true}); err != nil {
		t.Fatal(err)
	}
	add(page.Body.Bytes())
	fmt.Printf("figure dashboard_compressed_bytes %d bytes\n", total)
	if total > maxCompressed {
		t.Errorf("together they are %d bytes, want at most %d", total, maxCompressed)
	}
}
