package docker

import (
	"time"

	"github.com/codehub/gateway/coordinator/backend"
)

// SetPatience sets how long the output of a job may be unreadable.
func SetPatience(b backend.Backend, d time.Duration) { b.Core.(*Docker).outcomes.Patience = d }
