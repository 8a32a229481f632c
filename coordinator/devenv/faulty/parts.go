package faulty

import (
	"bytes"
	"encoding/xml"
	"io"
	"net/http"
	"sync"
)

// parts maps an upload's id and a part's number to the size of the part in bytes.
type parts struct {
	mu    sync.Mutex
	sizes map[string]map[string]int64
}

// refuses records an uploaded part, and reports whether the request completes an upload whose parts, apart from the
// last one, differ in size: Cloudflare R2 answers InvalidPart then.
func (p *parts) refuses(r *http.Request) bool {
	query := r.URL.Query()
	upload, number := query.Get("uploadId"), query.Get("partNumber")
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case r.Method == http.MethodPut && upload != "" && number != "":
		if p.sizes[upload] == nil {
			p.sizes[upload] = make(map[string]int64)
		}
		p.sizes[upload][number] = r.ContentLength
		return false
	case r.Method != http.MethodPost || upload == "":
		return false
	}
	body, err := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var complete struct {
		Part []struct{ PartNumber string }
	}
	if err != nil || xml.Unmarshal(body, &complete) != nil {
		return true
	}
	for i, part := range complete.Part {
		size, first := p.sizes[upload][part.PartNumber], p.sizes[upload][complete.Part[0].PartNumber]
		if last := i == len(complete.Part)-1; size != first && !last || size > first {
			return true
		}
	}
	return false
}
