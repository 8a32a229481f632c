package workspace

import "errors"

// Failure is an actuator's error together with the reason that the workspace
// shows for it. Actuators return it where the reason is known; any other error
// counts as [ReasonActionFailed].
type Failure struct {
	Reason ErrorReason
	Err    error
}

// Error returns the wrapped error's text: the reason has a column of its own.
func (f *Failure) Error() string { return f.Err.Error() }

// Unwrap returns the wrapped error.
func (f *Failure) Unwrap() error { return f.Err }

// Fail wraps err with reason. It returns nil for a nil err.
func Fail(reason ErrorReason, err error) error {
	if err == nil {
		return nil
	}
	return &Failure{Reason: reason, Err: err}
}

// ReasonOf returns the reason carried by err, or [ReasonActionFailed].
func ReasonOf(err error) ErrorReason {
	var f *Failure
	if errors.As(err, &f) {
		return f.Reason
	}
	return ReasonActionFailed
}
