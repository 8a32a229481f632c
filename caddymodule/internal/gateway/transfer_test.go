package gateway

import (
	"bytes"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The clock of these tests advances by a minute with every call of Used. So a transfer takes as many minutes as there
// are calls, which is longer than any TTL that it must outlast.
const minutes = 12

// To the gateway, a download, a stream of events, and a long poll that sends something look the same: an answer whose
// bytes come slowly.
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

// TestSoundThatAPagePlaysIsATransfer checks that sound with 24 kbit/s counts as a transfer. This is less than the
// threshold of other transfers, but an idle page plays nothing.
func TestSoundThatAPagePlaysIsATransfer(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/typed":
			w.Header().Set("Content-Type", "audio/mpeg")
		case "/short":
			w.Header().Set("Content-Type", "audio/mpeg")
			_, _ = w.Write(make([]byte, 10<<10))
			return
		}
		_, _ = w.Write(make([]byte, 60<<10))
	}))
	h.tell(`{"hello":true}`)
	wait.Until(t, "presence holds", func() bool { return h.mode(one) == workspace.PagePresence })
	for _, c := range []struct {
		path, dest string
		want       bool
	}{{"/stream", "audio", true}, {"/stream", "video", true}, {"/typed", "empty", true}, {"/stream", "empty", false}, {"/short", "audio", false}} {
		h.waitServed()
		h.Used(one)
		h.get(200, onePath+c.path, asAlice, "Sec-Fetch-Mode: no-cors", "Sec-Fetch-Dest: "+c.dest)
		h.waitServed()
		if got := h.Used(one); got != c.want {
			t.Errorf("%s for %s: use %v", c.path, c.dest, got)
		}
	}
}
