package e2e

import (
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"
)

// presencePairs is how often a page with the script and one without it take turns.
const presencePairs = 1000

// presenceOverhead measures the cost of the script for each opened page: more bytes, and more time until the document
// is complete. For comparison, it opens the same document in a frame within a page. A framed document gets no script,
// and is otherwise served in the same way. The script itself is loaded once per version.
func presenceOverhead(b *testing.B, me *user, url string) {
	b.Helper()
	frame := maps.Clone(navigation)
	frame["Sec-Fetch-Dest"], frame["Sec-Fetch-Site"] = []string{"iframe"}, []string{"same-origin"}
	load := func(h http.Header) (size int64, took time.Duration) {
		b.Helper()
		r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, url, nil)
		if err != nil {
			b.Fatal(err)
		}
		r.Header = h.Clone()
		start := time.Now()
		res, err := me.http.Do(r)
		if err != nil {
			b.Fatal(err)
		}
		defer res.Body.Close()
		if size, err = io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
			b.Fatal(res.Status, err)
		}
		return size, time.Since(start)
	}
	var bytes int64
	var differences []float64
	for i := range warmUp + presencePairs {
		var size [2]int64
		var took [2]time.Duration
		for j := range 2 {
			which := (i + j) % 2 // each goes first equally often
			size[which], took[which] = load([]http.Header{navigation, frame}[which])
		}
		if i >= warmUp {
			bytes = size[0] - size[1]
			differences = append(differences, float64(took[0]-took[1])/1e6)
		}
	}
	slices.Sort(differences)
	figure("presence_page_overhead_bytes", float64(bytes), "bytes")
	figure("presence_page_overhead_ms", median(differences), "ms")
	figure("presence_page_overhead_ms_error", medianError(differences), "ms")
}
