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

// PendingError is why an actuator could not do its work yet. The backend waits for something, such
// as a quota that is used up or a node that does not answer. It does not count as a failure of the
// operation, which waits and tries again.
type PendingError struct {
	Pending Pending
	Err     error
}

// Error implements error.
func (e *PendingError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *PendingError) Unwrap() error { return e.Err }

// StoreError is why an actuator was not called: the object store cannot be used. It
// ends the operation without counting as its failure.
type StoreError struct {
	State StoreState
	Err   error
}

// Error implements error.
func (e *StoreError) Error() string { return e.Err.Error() }

// Unwrap returns the wrapped error.
func (e *StoreError) Unwrap() error { return e.Err }

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
