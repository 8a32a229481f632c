package kubernetes

import (
	"time"

	"github.com/codehub/gateway/coordinator/backend"
)

// SetPatience sets how long the output of a job may be unreadable.
func SetPatience(b backend.Backend, d time.Duration) { b.Core.(*Backend).outcomes.Patience = d }
