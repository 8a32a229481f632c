package archive_test

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv"
)

func (b bucket) marker() archive.Marker {
	b.t.Helper()
	m, err := b.ReadMarker(b.t.Context())
	if err != nil {
		b.t.Fatal(err)
	}
	return m
}

func TestAMarkerIsWrittenOnlyOverTheOneThatWasSeen(t *testing.T) {
	b := fresh(t)
	if _, err := b.ReadMarker(t.Context()); !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("without a marker: %v", err)
	}
	if err := b.WriteMarker(t.Context(), []byte("one"), "\"0123\""); !errors.Is(err, archive.ErrMarkerChanged) {
		t.Fatalf("over a marker that is gone: %v", err)
	}
	if err := b.WriteMarker(t.Context(), []byte("one"), ""); err != nil {
		t.Fatal(err)
	}
	first := b.marker()
	if string(first.Content) != "one" || first.ETag == "" || b.get("archives/"+archive.MarkerKey) != "one" {
		t.Fatalf("%q, %q", first.Content, first.ETag)
	}
	if err := b.WriteMarker(t.Context(), []byte("two"), ""); !errors.Is(err, archive.ErrMarkerChanged) {
		t.Fatalf("over one that was not seen: %v", err)
	}
	if err := b.WriteMarker(t.Context(), []byte("two"), first.ETag); err != nil {
		t.Fatal(err)
	}
	if err := b.WriteMarker(t.Context(), []byte("three"), first.ETag); !errors.Is(err, archive.ErrMarkerChanged) {
		t.Fatalf("over one that was replaced: %v", err)
	}
	if m := b.marker(); string(m.Content) != "two" || m.ETag == first.ETag {
		t.Fatalf("%q, %q", m.Content, m.ETag)
	}
}

func TestOneOfManyWritersOfAMarkerSucceeds(t *testing.T) {
	b := fresh(t)
	for round, etag := range []string{"", "the one of the first round"} {
		if round > 0 {
			etag = b.marker().ETag
		}
		var wg sync.WaitGroup
		var written atomic.Int32
		for i := range 10 {
			wg.Go(func() {
				switch err := b.WriteMarker(t.Context(), fmt.Appendf(nil, "%d of round %d", i, round), etag); {
				case err == nil:
					written.Add(1)
				case !errors.Is(err, archive.ErrMarkerChanged):
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if n := written.Load(); n != 1 {
			t.Errorf("round %d: %d of 10 writers succeeded", round, n)
		}
	}
}

func TestABucketThatIsGoneHasNoMarker(t *testing.T) {
	o := options(devenv.S3(t))
	o.Bucket += "-not-there"
	if _, err := open(t, o).ReadMarker(t.Context()); !errors.Is(err, archive.ErrNoBucket) || errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("ReadMarker returns %v", err)
	}
}

// TestNothingIsPrintedPastTheLog: by default, the SDK itself writes to standard error, bypassing every log.
func TestNothingIsPrintedPastTheLog(t *testing.T) {
	printed, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	terminal := os.Stderr
	os.Stderr = printed
	defer func() { os.Stderr = terminal }()
	o := options(devenv.S3(t))
	o.Transport = func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) { // a store without checksums
			answer, err := next.RoundTrip(r)
			if err == nil {
				maps.DeleteFunc(answer.Header, func(name string, _ []string) bool { return strings.HasPrefix(name, "X-Amz-Checksum") })
			}
			return answer, err
		})
	}
	s := open(t, o)
	if err := s.WriteMarker(t.Context(), []byte("{}"), ""); err != nil {
		t.Fatal(err)
	}
	if m, err := s.ReadMarker(t.Context()); err != nil || string(m.Content) != "{}" {
		t.Errorf("%q, %v", m.Content, err)
	}
	if text, err := os.ReadFile(printed.Name()); err != nil || len(text) > 0 {
		t.Errorf("printed %q, %v", text, err)
	}
}
