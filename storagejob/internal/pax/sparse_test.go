package pax_test

import (
	"archive/tar"
	"bytes"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/storagejob/internal/pax"
)

// TestSparseHeadersSayWhatOthersSay compares our header with Go's for the same file.
func TestSparseHeadersSayWhatOthersSay(t *testing.T) {
	const xattr = "SCHILY.xattr."
	long := strings.Repeat("long/", 300) + "\xff\nname"
	for name, h := range map[string]tar.Header{
		"plain":          {Name: "./a", Mode: 0o644, Uid: 1000, Gid: 1001, ModTime: time.Unix(1_700_000_000, 0)},
		"nanoseconds":    {Name: "./a", Mode: 0o4755, ModTime: time.Unix(1_700_000_000, 120_000_001)},
		"before 1970":    {Name: "./a", ModTime: time.Unix(-5, 999_999_999)},
		"just before":    {Name: "./a", ModTime: time.Unix(-1, 1)},
		"whole, before":  {Name: "./a", ModTime: time.Unix(-77, 0)},
		"far future":     {Name: "./a", ModTime: time.Unix(15_000_000_000, 5)},
		"large owner":    {Name: "./a", Uid: 4_000_000_000, Gid: 2097152},
		"any name":       {Name: long},
		"of 99 bytes":    {Name: strings.Repeat("n", 99)},
		"with attribute": {Name: "./a", PAXRecords: map[string]string{xattr + "user.a%3Db": "\x00=\n", xattr + "user.empty": ""}},
	} {
		t.Run(name, func(t *testing.T) {
			h.Typeflag, h.Format, h.Size = tar.TypeReg, tar.FormatPAX, 1<<30
			if h.ModTime.IsZero() {
				h.ModTime = time.Unix(0, 0)
			}
			head, err := pax.AppendSparseHeader(nil, &h, []pax.Extent{{Offset: 1 << 20, Length: 4}}, 3)
			must(t, err)
			got, err := tar.NewReader(bytes.NewReader(append(head, make([]byte, 512)...))).Next()
			must(t, err)
			var other bytes.Buffer
			must(t, tar.NewWriter(&other).WriteHeader(&h))
			want, err := tar.NewReader(&other).Next()
			must(t, err)
			if got.Name != want.Name || got.Size != want.Size || got.Mode != want.Mode || got.Uid != want.Uid ||
				got.Gid != want.Gid ||
				!got.ModTime.Equal(want.ModTime) || got.Typeflag != want.Typeflag {
				t.Errorf("got %+v\nwant %+v", got, want)
			}
			attributes := func(h *tar.Header) map[string]string {
				kept := maps.Clone(h.PAXRecords)
				maps.DeleteFunc(kept, func(key, _ string) bool { return !strings.HasPrefix(key, xattr) })
				return kept
			}
			if !maps.Equal(attributes(got), attributes(want)) {
				t.Errorf("attributes %q, want %q", attributes(got), attributes(want))
			}
		})
	}
	huge := tar.Header{Name: "a", PAXRecords: map[string]string{xattr + "user.a": strings.Repeat("x", pax.MaxRecords)}}
	if _, err := pax.AppendSparseHeader(nil, &huge, nil, 1); err == nil {
		t.Error("a header that no program reads was written")
	}
}
