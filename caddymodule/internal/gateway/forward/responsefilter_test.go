package forward

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

// slowest accepts one byte per write.
type slowest struct {
	http.ResponseWriter
	flushed int
}

func (s *slowest) Write(p []byte) (int, error) { return s.ResponseWriter.Write(p[:1]) }
func (s *slowest) Flush()                      { s.flushed++ }

func TestTheFilterKeepsWhatAResponseWriterCanDo(t *testing.T) {
	p := gatewaytest.New(t)
	p.Run(gatewaytest.One, gatewaytest.Echo(t))
	e, err := p.Table.Find(t.Context(), gatewaytest.One)
	if err != nil {
		t.Fatal(err)
	}
	m := meter{slot: p.Activity.Slot(gatewaytest.One), buffer: p.Activity, entry: e}
	rec := httptest.NewRecorder()
	f := new(responseFilter)
	f.reset(rec, "", false)
	f.meter, f.metered = m, true
	if n, err := f.ReadFrom(strings.NewReader("all of it")); n != 9 || err != nil || rec.Body.String() != "all of it" {
		t.Errorf("ReadFrom: %d %v %q", n, err, rec.Body)
	}
	if !f.begun || rec.Code != http.StatusOK {
		t.Errorf("after ReadFrom: begun %v, status %d", f.begun, rec.Code)
	}
	slow := &slowest{ResponseWriter: httptest.NewRecorder()}
	f.reset(slow, "", false)
	if n, err := f.Write([]byte("two")); n != 1 || err != nil {
		t.Errorf("a short write: %d %v", n, err)
	}
	if err := f.FlushError(); err != nil || slow.flushed != 1 {
		t.Errorf("Flush: %v, %d times", err, slow.flushed)
	}
	data := bytes.Repeat([]byte("x"), 4096)
	for _, byPage := range []bool{false, true} {
		m.byPage = byPage
		f.meter, f.metered = m, true
		body := &upload{ReadCloser: io.NopCloser(bytes.NewReader(nil)), meter: &m}
		if n := testing.AllocsPerRun(100, func() { m.Message(100); m.Message(1 << 20) }); n != 0 {
			t.Errorf("%v allocations for a message", n)
		}
		if n := testing.AllocsPerRun(100, func() { _, _ = f.Write(data[:1]); _, _ = body.Read(data) }); n > 1 {
			t.Errorf("%v allocations for passing bytes on", n) // the recorder's buffer grows
		}
	}
}

// closer is a compressor before the gateway.
type closer struct {
	http.ResponseWriter
	statuses []int
}

func (c *closer) Unwrap() http.ResponseWriter { return c.ResponseWriter }
func (c *closer) Close() error                { return nil }
func (c *closer) WriteHeader(status int)      { c.statuses = append(c.statuses, status) }

// TestOnlyAnUntypedBodyPassesByTheCompressor checks that only an answer with a body of unknown type bypasses the
// compressor. An answer without a body, such as 304, does not, because the compressor may need to see it.
func TestOnlyAnUntypedBodyPassesByTheCompressor(t *testing.T) {
	for status, want := range map[int]int{101: 1, 200: 0, 204: 1, 304: 1, 404: 0} {
		c := &closer{ResponseWriter: httptest.NewRecorder()}
		f := new(responseFilter)
		f.reset(c, "", false)
		if f.WriteHeader(status); len(c.statuses) != want {
			t.Errorf("%d: the compressor has got %v", status, c.statuses)
		}
	}
}
