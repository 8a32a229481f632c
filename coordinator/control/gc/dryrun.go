package gc

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Verdict is what a dry run says would happen to an object, or what a cycle has done with an archive.
type Verdict string

// The verdicts of a dry run.
const (
	// Foreign: the object is neither an archive nor a commit marker. It is never touched.
	Foreign Verdict = "foreign"
	// Protected: a workspace needs the archive, or may need it.
	Protected Verdict = "protected"
	// Reported: the archive does not fit the database. It is deleted on command only.
	Reported Verdict = "reported"
	// Candidate: an orphan whose delay has not passed yet, or whose workspace can be undeleted.
	Candidate Verdict = "candidate"
	// Due: an orphan whose delay has passed, or, with [Request].Unknown, an archive that would otherwise be
	// reported. The next cycle deletes it, unless it is stopped.
	Due Verdict = "due"
)

// The verdicts of a cycle on command.
const (
	// Deleted: the archive and its commit marker are gone.
	Deleted Verdict = "deleted"
	// Spared: the archive was due, but just before the deletion a workspace needed it again.
	Spared Verdict = "spared"
	// Failed: the store did not delete it. The next cycle tries again.
	Failed Verdict = "failed"
)

// UnknownSize is the size of an archive if only its commit marker exists.
const UnknownSize = -1

// Judgement is a cycle's finding about one archive or foreign object.
type Judgement struct {
	// Key is the archive's or the object's key, without the bucket's prefix.
	Key string
	// Workspace is the workspace that the key names, whether it exists or not. It is
	// empty for a foreign object.
	Workspace workspace.ID
	// Size is in bytes, or [UnknownSize].
	Size int64
	// Modified is when the archive was written.
	Modified time.Time
	// Verdict is what happens to the object, and Reason says why. A foreign object has no reason.
	Verdict Verdict
	Reason  Reason
	// FirstSeen is when a cycle first found that the archive is an orphan, and Age the time since then. Both are zero
	// for an archive that is no orphan, and if [Options].Orphans is nil. Age is also zero for an orphan that only dry
	// runs have seen: its delay begins with the next real cycle. For an archive that is due because of
	// [Request].Unknown, Age counts from Modified.
	FirstSeen time.Time
	Age       time.Duration
	// Left is the time until a candidate is due, which is when its delay has passed and its workspace can no longer be
	// undeleted.
	Left time.Duration
}

// DryRun does one cycle without its effects. It deletes nothing, records no orphan and no identity, logs nothing, and
// needs neither the leadership nor a [Runner]. Of opts it uses Archives, Store, Orphans and Settings. It calls the
// function each with every archive and every foreign object, one workspace after the other. If that function returns an
// error, the cycle ends.
//
// Orphans may be nil when Redis does not answer. The ages of the orphans are then unknown, and no archive is due.
//
// If the circuit breaker would stop a real cycle, the error is a [*CircuitBreakerError]. The report and the findings
// are complete nevertheless. With [Request].Force neither kind of cycle is stopped. After any other error the report
// and the findings are incomplete.
func DryRun(ctx context.Context, opts Options, req Request, each func(Judgement) error) (Report, error) {
	c := &cycle{opts: opts, settings: opts.Settings.orDefault(), request: req, dry: true, each: each}
	if err := c.inspect(ctx); err != nil {
		return c.report, err
	}
	if err := c.uploads(ctx); err != nil {
		return c.report, err
	}
	return c.report, c.checkShare(ctx)
}
