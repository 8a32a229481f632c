package forward

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/codehub/gateway/coordinator/dataplane/route"
)

// ProxyFunc passes a request on to the application of a workspace that is ready in the state
// st, at st.Route.Endpoint ("host:port"). It returns [ErrUnreachable] when nothing accepts
// connections there, and [*NoAnswerError] when the application broke off or took too long.
// [Forwarder.Forward] returns any other error as it is.
type ProxyFunc func(w http.ResponseWriter, r *http.Request, st *route.State) error

// ErrUnreachable means that nothing accepts connections at the workspace's address. The request was not sent.
var ErrUnreachable = errors.New("the workspace is unreachable")

// ErrUnconfirmed means that the workspace may no longer have the address. The request was not sent.
var ErrUnconfirmed = errors.New("the address of the workspace is not certain")

// errNoAnswer means that an application sent an invalid answer.
var errNoAnswer = errors.New("its answer is not HTTP, or switches protocols unasked")

// NoAnswerError means that an application closed the connection, or took too long, before it answered. The request may
// have had an effect and must not be repeated.
type NoAnswerError struct {
	// Status is the status for the client: 502, or 504 after a timeout.
	Status int
	// Err is the proxy's error.
	Err error
}

// Error implements error.
func (e *NoAnswerError) Error() string {
	return fmt.Sprintf("the workspace gave no answer (status %d): %v", e.Status, e.Err)
}

// Unwrap returns the proxy's error.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// Outcome is how an attempt to pass on a request ended.
type Outcome uint8

const (
	// Answered: the answer has begun, the client disconnected while waiting for it, or the error cannot be turned
	// into an answer. With every other outcome nothing was sent to the client.
	Answered Outcome = iota
	// SessionEnded: the session that admitted the request has ended. Nothing was sent.
	SessionEnded
	// Unconfirmed: see [ErrUnconfirmed].
	Unconfirmed
	// Unreachable: see [ErrUnreachable].
	Unreachable
	// NoAnswer: see [NoAnswerError].
	NoAnswer
	// BadBody: see [BodyError].
	BadBody
	// ClientGone: the client has disconnected before the end of its request.
	ClientGone
)

// outcomeOf returns what an error of the proxy means for a request whose answer has not begun.
func outcomeOf(err error) Outcome {
	var noAnswer *NoAnswerError
	var body *BodyError
	switch {
	case errors.As(err, &body):
		return BadBody
	case errors.Is(err, ErrUnconfirmed):
		return Unconfirmed
	case errors.Is(err, ErrUnreachable):
		return Unreachable
	case errors.As(err, &noAnswer):
		return NoAnswer
	}
	return Answered
}
