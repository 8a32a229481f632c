package forward

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// Some clients read the answer only after they have sent their whole upload. So the gateway reads and drops the rest of
// an upload after the answer. It stops when nothing arrives for lingerSilence, and in any case after lingerLimit.
const (
	lingerSilence = 500 * time.Millisecond
	lingerLimit   = 30 * time.Second
)

// upload is the body of a request, whose bytes are counted.
type upload struct {
	io.ReadCloser
	request context.Context // that of the request, whose body this is; nil without a body
	meter   *meter
	up      flow
	// keptOpen says that Close does not close the body, because the server closes it when the request is over.
	keptOpen bool
	reading  sync.Mutex  // held while it is read
	begun    atomic.Bool // the body was read from
	ended    atomic.Bool // it was read to its end, or is no longer wanted
	// failure is set if the body broke off because of the client. It says why.
	failure atomic.Pointer[BodyError]
}

// Read counts the bytes that it has read.
func (u *upload) Read(p []byte) (int, error) {
	if !u.begun.Load() {
		u.begun.Store(true)
	}
	u.reading.Lock()
	defer u.reading.Unlock()
	n, err := u.ReadCloser.Read(p)
	u.meter.pass(&u.up, n)
	if err != nil && !u.ended.Swap(true) && err != io.EOF {
		u.failure.Store(newBodyError(err))
	}
	return n, err
}

// brokenOff returns why the body broke off, or nil if it did not. A read error ends the request's context, and with
// it the proxy, before the reader gets the error. Other causes that end the context also end reading.
func (u *upload) brokenOff() *BodyError {
	if u.request != nil && u.request.Err() != nil {
		u.reading.Lock()
		defer u.reading.Unlock()
	}
	return u.failure.Load()
}

// Close says that the body is no longer wanted.
func (u *upload) Close() error {
	if u.keptOpen {
		return nil
	}
	u.ended.Store(true)
	return u.ReadCloser.Close()
}

// linger reads the rest of the body of a request over HTTP/1, after the answer has been passed on to w.
func (u *upload) linger(w http.ResponseWriter) {
	if !u.keptOpen || u.ended.Load() {
		return
	}
	c := http.NewResponseController(w)
	if !u.begun.Load() { // the client waits for `100 Continue`, and need not send anything
		_ = c.SetReadDeadline(past)
		return
	}
	_ = c.Flush()
	p := make([]byte, 32<<10)
	for until := time.Now().Add(lingerLimit); time.Now().Before(until); {
		if c.SetReadDeadline(time.Now().Add(lingerSilence)) != nil {
			return
		}
		if _, err := u.ReadCloser.Read(p); err == io.EOF {
			_ = c.SetReadDeadline(time.Time{})
			return
		} else if err != nil {
			return
		}
	}
}

// BodyError means that the body of a request broke off before its end, or stalled. The application is not the cause.
type BodyError struct {
	// Status is the status for the client: 408 if it sent nothing for too long, and otherwise 400.
	Status int
	// Err is the error of reading the body.
	Err error
}

func newBodyError(err error) *BodyError {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &BodyError{http.StatusRequestTimeout, err}
	}
	return &BodyError{http.StatusBadRequest, err}
}

// Error implements error.
func (e *BodyError) Error() string { return "reading the body of a request: " + e.Err.Error() }

// Unwrap returns the error of reading.
func (e *BodyError) Unwrap() error { return e.Err }
