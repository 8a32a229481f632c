package gateway

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
)

// The clock of these tests moves by a minute with every call of Used, so each transfer
// takes longer than any TTL of so many minutes.
const minutes = 12

// A download, a stream of events, and a long poll that sends are the same thing to the
// gateway: an answer whose bytes come slowly.
func TestADownloadKeepsItsWorkspaceAwakeWhileBytesFlow(t *testing.T) {
	h := newHarness(t)
	next, end := make(chan struct{}, 1), make(chan struct{})
	h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		for r.URL.Path == "/file" {
			select {
			case <-r.Context().Done():
				return
			case <-next:
				_, _ = io.WriteString(w, "chunk")
				_ = http.NewResponseController(w).Flush()
			case <-end:
				return
			}
		}
	}))
	next <- struct{}{} // the first bytes: without them there is no answer yet
	resp, err := client.Do(gatewaytest.NewRequest("GET", h.url+onePath+"/file", asAlice, asProgram))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	chunk := make([]byte, len("chunk"))
	receive := func() {
		t.Helper()
		if _, err := io.ReadFull(resp.Body, chunk); err != nil {
			t.Fatal(err)
		}
	}
	receive()
	wait.Until(t, "the request counts", func() bool { return h.Used(one) })
	for h.Used(one) { // the first bytes may count separately
	}
	for i := range minutes {
		next <- struct{}{}
		receive()
		wait.Until(t, "the chunk counts", func() bool { return h.Used(one) }) // a moment after the client has it
		if h.Used(one) {
			t.Fatalf("minute %d: a stalled download counts as activity", i)
		}
	}
	close(end)
	if _, err := io.ReadAll(resp.Body); err != nil {
		t.Fatal(err)
	}
	h.waitServed()
	if h.Used(one) {
		t.Error("the end of a download counts as activity")
	}
}

func TestAnUploadKeepsItsWorkspaceAwakeWhileBytesFlow(t *testing.T) {
	h := newHarness(t)
	part := bytes.Repeat([]byte("x"), 64<<10) // more than any buffer on the way
	arrived := make(chan struct{})
	h.Run(one, gatewaytest.App(t, func(_ http.ResponseWriter, r *http.Request) {
		for received := make([]byte, len(part)); ; {
			if _, err := io.ReadFull(r.Body, received); err != nil {
				return
			}
			select {
			case arrived <- struct{}{}:
			case <-r.Context().Done():
				return
			}
		}
	}))
	body, send := io.Pipe()
	t.Cleanup(func() { _ = send.CloseWithError(io.ErrUnexpectedEOF) })
	r := gatewaytest.NewRequest("PUT", h.url+onePath+"/file", asAlice, asProgram)
	r.Body, r.ContentLength = body, int64(minutes*len(part))
	status := make(chan int, 1)
	go func() {
		resp, err := client.Do(r)
		if err != nil {
			t.Error(err)
			status <- 0
			return
		}
		_ = resp.Body.Close()
		status <- resp.StatusCode
	}()
	for i := range minutes {
		if _, err := send.Write(part); err != nil {
			t.Fatal(err)
		}
		select {
		case <-arrived:
		case <-time.After(wait.Timeout):
			t.Fatalf("minute %d: the bytes do not arrive", i)
		}
		if !h.Used(one) {
			t.Fatalf("minute %d: the upload does not count", i)
		}
		if i < minutes-1 && h.Used(one) {
			t.Fatalf("minute %d: a stalled upload counts as activity", i)
		}
	}
	if s := <-status; s != http.StatusOK {
		t.Errorf("the upload got %d", s)
	}
}

// slowest takes one byte with each write.
type slowest struct {
	http.ResponseWriter
	flushed int
}

func (s *slowest) Write(p []byte) (int, error) { return s.ResponseWriter.Write(p[:1]) }
func (s *slowest) Flush()                      { s.flushed++ }

func TestTheFilterKeepsWhatAResponseWriterCanDo(t *testing.T) {
	p := gatewaytest.New(t)
	p.Run(one, gatewaytest.Echo(t))
	e, err := p.Table.Find(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	m := meter{slot: p.Activity.Slot(one), buffer: p.Activity, entry: e}
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
