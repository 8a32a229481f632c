package doctor

import (
	"context"
	"slices"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/logkey"
)

const (
	// settleFor is how long problems with the address may last after a start before they are reported: a proxy in front
	// of this process takes a while to notice that the process serves.
	settleFor = 30 * time.Second
	// settleEvery is the pause between two checks.
	settleEvery = 5 * time.Second
)

// LogAtStart checks Redis, the images and public_url: users notice problems with these, and nothing else logs such
// problems early. It logs each warning and problem. It returns after the checks, or earlier if ctx ends. The process
// must serve already.
func LogAtStart(ctx context.Context, s command.Settings, log *zap.Logger) {
	b, err := backendOf(s)
	if err != nil {
		return // a start with such settings fails earlier
	}
	defer b.Close()
	table := patient{s}.checks(b)
	report(check.Run(ctx, named(table, "redis", "images")), log)
	if s.PublicURL == "" {
		return
	}
	address := named(table, "address")
	found := check.Run(ctx, address)
	for settled := time.Now().Add(settleFor); ctx.Err() == nil && slices.ContainsFunc(found, notOK) && time.Now().Before(settled); {
		select {
		case <-ctx.Done():
		case <-time.After(settleEvery):
			found = check.Run(ctx, address)
		}
	}
	if ctx.Err() == nil {
		report(found, log)
	}
}

// named returns the rows with these names.
func named(table []check.Row, names ...string) []check.Row {
	return slices.DeleteFunc(slices.Clone(table), func(r check.Row) bool { return !slices.Contains(names, r.Name) })
}

func notOK(f check.Finding) bool { return f.Level != check.LevelOK }

// report logs warnings and problems.
func report(found []check.Finding, log *zap.Logger) {
	for _, f := range found {
		if notOK(f) {
			log.Warn("users will notice a fault", zap.String(logkey.Check, f.Check), zap.String(logkey.Problem, f.Text),
				zap.String(logkey.Remedy, f.Remedy))
		}
	}
}
