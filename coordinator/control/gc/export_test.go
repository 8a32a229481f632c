package gc

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// CollectInTerm runs one cycle like the leader's runner.
func CollectInTerm(ctx context.Context, opts Options, f postgres.Fence, lease func() bool) (Report, error) {
	return collect(ctx, &cycle{opts: opts, settings: opts.Settings.orDefault()}, &term{fence: f, lease: lease})
}

// CollectHeldUp runs one cycle whose judgements all expire.
func CollectHeldUp(ctx context.Context, opts Options) (Report, error) {
	return collect(ctx, &cycle{opts: opts, settings: opts.Settings.orDefault(), life: time.Nanosecond}, nil)
}

// MaxHeld and MaxDue bound what a cycle holds in memory.
const (
	MaxHeld    = maxHeld
	MaxDue     = maxDue
	MaxUploads = maxUploads
)
