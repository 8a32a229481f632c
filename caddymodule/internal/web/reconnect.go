package web

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// AskToReconnect has the connection of a request closed after its answer: HTTP/1.1 says so in the answer, and HTTP/2
// sends GOAWAY. The connection is not simply closed while it is idle, because the client may just be sending its next
// request. Over HTTP/3, the server itself tells clients at its end. It has no effect once the answer's header is
// written.
func AskToReconnect(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor < 3 && r.Method != http.MethodConnect && r.Header.Get("Upgrade") == "" {
		w.Header().Set("Connection", "close")
	}
}

// ReconnectWriter asks the client to reconnect (SPEC 5) if the process is ending when the answer begins. It does not
// matter how long ago the request came. One goroutine uses it.
type ReconnectWriter struct {
	http.ResponseWriter
	request *http.Request
	exiting func() bool
	begun   bool // the final answer has begun
}

// Reset prepares w for the answer to r. w passes the answer on to the writer to. exiting reports whether the process is
// ending.
func (w *ReconnectWriter) Reset(to http.ResponseWriter, r *http.Request, exiting func() bool) {
	*w = ReconnectWriter{ResponseWriter: to, request: r, exiting: exiting}
}

// begin is called before the final answer begins.
func (w *ReconnectWriter) begin() {
	if w.begun {
		return
	}
	w.begun = true
	if w.exiting() {
		AskToReconnect(w.ResponseWriter, w.request)
	}
}

// Begun reports whether there can be no other answer any more.
func (w *ReconnectWriter) Begun() bool { return w.begun }

// Unwrap lets [http.ResponseController] find the server's own ResponseWriter.
func (w *ReconnectWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader begins the answer, unless it is an informational one.
func (w *ReconnectWriter) WriteHeader(status int) {
	if status >= http.StatusOK || status == http.StatusSwitchingProtocols {
		w.begin()
	}
	w.ResponseWriter.WriteHeader(status)
}

// Write begins the answer.
func (w *ReconnectWriter) Write(p []byte) (int, error) {
	w.begin()
	return w.ResponseWriter.Write(p)
}

// ReadFrom begins the answer, and keeps the server's fast path.
func (w *ReconnectWriter) ReadFrom(r io.Reader) (int64, error) {
	w.begin()
	return io.Copy(w.ResponseWriter, r)
}

// FlushError begins the answer.
func (w *ReconnectWriter) FlushError() error {
	w.begin()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// Hijack takes the connection: there is no answer to send on it any more.
func (w *ReconnectWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	w.begun = true
	return http.NewResponseController(w.ResponseWriter).Hijack()
}
