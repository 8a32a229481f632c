package api

import (
	"errors"
	"io"
	"sync"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
)

// errWindow means that a client has sent more input than the window allows.
var errWindow = errors.New("more input than the window allows")

// execInput buffers a command's input from the client: at most [v1.ExecWindow] bytes. put never blocks, so that the
// client's other messages, and above all its disconnect, are noticed in the meantime.
type execInput struct {
	// taken tells the client how much was read. The reader calls it.
	taken func(n int) error

	mu    sync.Mutex
	ready sync.Cond // signals that a field below has changed
	held  []byte
	ended error // follows the buffered input; nil while more may come
	told  int   // how much was read since the last report to the client
}

func newExecInput(taken func(n int) error) *execInput {
	in := &execInput{taken: taken}
	in.ready.L = &in.mu
	return in
}

// put adds input from the client.
func (in *execInput) put(p []byte) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended != nil {
		return nil
	}
	// Bytes that the command has read but that were not reported yet still count, because the client does not know that
	// they were read.
	if len(in.held)+in.told+len(p) > v1.ExecWindow {
		return errWindow
	}
	in.held = append(in.held, p...)
	in.ready.Signal()
	return nil
}

// end ends the input; the error is [io.EOF] if the client has ended it.
func (in *execInput) end(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.ended == nil {
		in.ended = err
		in.ready.Broadcast()
	}
}

// Read implements [io.Reader].
func (in *execInput) Read(p []byte) (int, error) {
	in.mu.Lock()
	for len(in.held) == 0 && in.ended == nil {
		in.ready.Wait()
	}
	if len(in.held) == 0 {
		defer in.mu.Unlock()
		return 0, in.ended
	}
	n := copy(p, in.held)
	in.held = in.held[:copy(in.held, in.held[n:])]
	in.told += n
	tell := 0
	if in.told >= v1.ExecWindow/4 || len(in.held) == 0 {
		tell, in.told = in.told, 0
	}
	in.mu.Unlock()
	if tell > 0 {
		if err := in.taken(tell); err != nil {
			return n, io.ErrClosedPipe
		}
	}
	return n, nil
}
