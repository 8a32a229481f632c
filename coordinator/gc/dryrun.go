package gc

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Verdict is what a cycle would do with an archive.
type Verdict string

// The verdicts.
const (
	// Protected: a workspace needs the archive, or may need it.
	Protected Verdict = "protected"
	// Candidate: an orphan whose delay has not passed yet.
	Candidate Verdict = "candidate"
	// Due: an orphan whose delay has passed. The next cycle deletes it, unless the
	// circuit breaker stops that cycle.
	Due Verdict = "due"
)

// UnknownSize is the size of an archive of which only the commit marker exists.
const UnknownSize = -1

// Finding is what a dry run says about one archive.
type Finding struct {
	// Key is the archive's key, without the bucket's prefix.
	Key string
	// Workspace is the workspace that the key names, whether it exists or not.
	Workspace workspace.ID
	// Size is in bytes, or [UnknownSize].
	Size int64
	// Modified is when the archive was written.
	Modified time.Time
	// Verdict is what the next cycle would do with it, and Reason why.
	Verdict Verdict
	Reason  Reason
	// FirstSeen is when a cycle first found that the archive is an orphan, and Age the
	// time since then. Both are zero for a protected archive, and without Orphans. Age
	// is also zero for an orphan that no cycle has seen yet: its delay begins with the
	// next cycle.
	FirstSeen time.Time
	Age       time.Duration
}

// DryRun does one cycle without its effects: it deletes nothing, records no
// orphan, logs nothing, and needs neither the leadership nor a [Runner]. It uses
// Archives, Store, Orphans and Settings of opts, and calls each with every archive,
// in the order of the listing. An error of each ends it. Foreign objects are
// counted in the report only.
//
// Orphans may be nil when Redis does not answer: then it is unknown since when archives
// are orphans, and none is due.
//
// Where a real cycle would be stopped by the circuit breaker, the report and the
// findings are complete and the error is a [*CircuitBreakerError]. After any other
// error they are not.
func DryRun(ctx context.Context, opts Options, each func(Finding) error) (Report, error) {
	c := &cycle{opts: opts, settings: opts.Settings.orDefault(), dry: true, each: each}
	err := c.inspect(ctx)
	return c.report, err
}
