// Package setting defines the error for a setting with a wrong value. The package that uses the value finds the error.
// Package setting must not know which settings there are, nor where they are written.
package setting

import "fmt"

// Error is what is wrong with the value of one setting.
type Error struct {
	// Setting is the setting's name in the configuration, such as `docker memory`.
	Setting string
	// Err says what is wrong, and what to write instead.
	Err error
}

// Error implements [error].
func (e *Error) Error() string { return e.Setting + ": " + e.Err.Error() }

// Unwrap returns what is wrong.
func (e *Error) Unwrap() error { return e.Err }

// Errorf returns an [*Error] of a setting.
func Errorf(name, format string, args ...any) error { return &Error{name, fmt.Errorf(format, args...)} }

// About returns those of the errors joined in err that are about one setting.
func About(err error, name string) (found []error) {
	switch e := err.(type) { //nolint:errorlint // each error of a tree is looked at
	case *Error:
		if e.Setting == name {
			found = append(found, e.Err)
		}
	case interface{ Unwrap() []error }:
		for _, joined := range e.Unwrap() {
			found = append(found, About(joined, name)...)
		}
	}
	return found
}
