//go:build !linux

package clock

import "time"

// sinceBoot returns 0: the wall clock must suffice.
func sinceBoot() time.Duration { return 0 }
