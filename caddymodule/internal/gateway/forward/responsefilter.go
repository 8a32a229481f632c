package forward

import (
	"bufio"
	"io"
	"net"
	"net/http"
)

// responseFilter removes headers from a workspace's responses that only the gateway may send to a
// browser. It records whether the final response has begun: from then on no other answer can be
// sent. It counts the bytes that pass as activity.
type responseFilter struct {
	http.ResponseWriter
	cleaner responseCleaner
	begun   bool // the final response has begun
	// invalid says that the application's status does not exist in HTTP. Nothing of that answer is
	// sent.
	invalid bool
	// unchanged says that the client already has the answer. The client is told only that, and gets no body.
	unchanged bool
	upload    upload // embedded, like the next one, to save an allocation
	// meter counts the client's bytes, unless another writer counts them.
	meter   meter
	metered bool
	down    flow
	playing bool // the page plays the answer, regardless of its type
	// document receives the script; nil unless the request is a navigation.
	document *document
}

// reset makes f a filter for one response to the client behind w.
func (f *responseFilter) reset(w http.ResponseWriter, prefix string, sandbox bool) {
	*f = responseFilter{ResponseWriter: w, cleaner: responseCleaner{prefix: prefix, sandbox: sandbox}}
	f.cleaner.note(w.Header())
}

// Unwrap lets [http.ResponseController] find the server's own ResponseWriter.
func (f *responseFilter) Unwrap() http.ResponseWriter { return f.ResponseWriter }

// clientGone is the status that the proxy sends when the request's context has ended. The client may have disconnected,
// but there are other causes.
const clientGone = 499

// WriteHeader sends the header without what a workspace must not set. An informational
// response (1xx) is cleaned as well and does not begin the final one.
func (f *responseFilter) WriteHeader(status int) {
	if f.invalid = f.invalid || !f.begun && (status < 100 || status > 999 || status == clientGone && f.upload.brokenOff() != nil); f.invalid {
		return
	}
	if !f.begun {
		f.cleaner.clean(f.Header())
		f.begun = status >= 200 || status == http.StatusSwitchingProtocols
		if f.begun && f.document != nil && f.document.begin(status, f.Header()) {
			f.unchanged, status = true, http.StatusNotModified
			notModified(f.Header())
		}
		if f.begun {
			f.keepUntyped(status)
			if f.upload.keptOpen && !f.upload.ended.Load() {
				f.Header()["Connection"] = []string{"close"} // otherwise the rest of the body could be taken for another request
			}
		}
	}
	f.ResponseWriter.WriteHeader(status)
	if f.metered {
		f.down.endless, f.down.media = isEndless(f.Header()), f.playing || isMedia(f.Header())
		f.meter.begin()
	}
}

// keepUntyped keeps an answer without a type unchanged: the browser detects the type, and with it the encoding. Go's
// servers would guess a type; they do not if the header field is present without a value. A compressor in front of the
// gateway would guess a type, too, so the answer bypasses it.
func (f *responseFilter) keepUntyped(status int) {
	if status < 200 || status == http.StatusNoContent || status == http.StatusNotModified {
		return // without a body nothing is guessed or compressed
	}
	h := f.Header()
	values, ok := h["Content-Type"]
	if !ok {
		h["Content-Type"] = nil
	}
	if len(values) > 0 && values[0] != "" {
		return
	}
	for at := f.ResponseWriter; ; {
		wrapper, ok := at.(interface{ Unwrap() http.ResponseWriter })
		if !ok {
			return
		}
		at = wrapper.Unwrap()
		if _, compresses := wrapper.(io.Closer); compresses { // it has an end to write
			f.ResponseWriter = at
		}
	}
}

// Hijack hands the connection over to its caller, who answers.
func (f *responseFilter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(f.ResponseWriter).Hijack()
	f.begun = f.begun || err == nil
	return conn, buffered, err
}

// begin sends the header if the application wrote a body without sending one.
func (f *responseFilter) begin() {
	if !f.begun {
		f.WriteHeader(http.StatusOK)
	}
}

// Write begins the response, if it has not begun. It counts bytes when the client accepts them: a client that accepts
// none keeps nothing awake.
func (f *responseFilter) Write(p []byte) (int, error) {
	f.begin()
	if f.invalid || f.unchanged {
		return len(p), nil
	}
	var n int
	var err error
	if f.document != nil {
		n, err = f.document.write(f.ResponseWriter, p)
	} else {
		n, err = f.ResponseWriter.Write(p)
	}
	if f.metered {
		f.meter.pass(&f.down, n)
	}
	return n, err
}

// ReadFrom copies through Write, so that a long copy counts continuously.
func (f *responseFilter) ReadFrom(r io.Reader) (int64, error) {
	return io.Copy(struct{ io.Writer }{f}, r)
}

// FlushError begins the response, if it has not begun.
func (f *responseFilter) FlushError() error {
	if f.begin(); f.invalid {
		return nil
	}
	return http.NewResponseController(f.ResponseWriter).Flush()
}

// Interface guards.
var (
	_ io.ReaderFrom                   = (*responseFilter)(nil)
	_ interface{ FlushError() error } = (*responseFilter)(nil)
)
