package e2e

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// TestPagesLeaveCompressed: the gateway asks applications for uncompressed pages, because it puts its script into
// them, and compresses the pages itself.
func TestPagesLeaveCompressed(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	w := me.create(t, "compressed")
	base := me.enter(t, w.ID)
	get := func(encoding string) (*http.Response, string) {
		h := navigation.Clone()
		h.Set("Accept-Encoding", encoding)
		return me.get(t, base, h)
	}
	plain, page := get("identity")
	if !strings.Contains(page, "presence.js") || plain.Header.Get("Content-Encoding") != "" {
		t.Fatalf("the page is %v %s", plain.Header, page)
	}
	packed, body := get("zstd")
	if packed.Header.Get("Content-Encoding") != "zstd" || !strings.Contains(packed.Header.Get("Vary"), "Accept-Encoding") {
		t.Fatalf("its headers are %v", packed.Header)
	}
	reader, err := zstd.NewReader(strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if got, err := io.ReadAll(reader); err != nil || string(got) != page {
		t.Errorf("%v, it differs from the page without compression: %s", err, got)
	}
}
