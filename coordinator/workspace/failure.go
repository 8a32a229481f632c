package workspace

import "errors"

// Failure is an actuator's error together with its reason. Actuators return it
// where the reason is known; any other error counts as [ReasonActionFailed].
type Failure struct {
	// Reason is stored in the row, and decides whether the operation is retried.
	Reason ErrorReason
	// Err is what failed.
	Err error
}

// Error returns the wrapped error's text. The reason is not part of it, because it
// is stored in a column of its own.
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
