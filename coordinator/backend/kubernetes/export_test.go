package kubernetes

import (
	"time"

	"github.com/codehub/gateway/coordinator/backend"
)

// SetReadTimeout sets how long the output of a job may be unreadable.
func SetReadTimeout(b backend.Backend, d time.Duration) { b.Core.(*Backend).outcomes.ReadTimeout = d }
