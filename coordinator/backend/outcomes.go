package backend

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/workspace"
)

// unreadLimit is how long the output of an ended job may be unreadable. It is longer than an engine, a node or an API
// server takes to restart. If nothing was attempted for unreadGap, for example because everything was down, the time
// starts anew. readLimit bounds one attempt, and readPause is the pause after an attempt that took that long. So a log
// that hangs does not hold up other logs.
const (
	unreadLimit = time.Minute
	unreadGap   = 2 * unreadLimit
	readLimit   = 5 * time.Second
	readPause   = 15 * time.Second
)

// unread describes a job whose output cannot be read: since when, when it was last tried, whether that attempt timed
// out, and its error.
type unread struct {
	since, last clock.Moment
	slow        bool
	why         string
}

// Outcomes caches how jobs ended, by the ids of their containers. An outcome never changes. Its zero value is empty,
// and it is safe for concurrent use.
type Outcomes struct {
	Memo[workspace.Job]
	// ReadTimeout is how long output may be unreadable before the job's result counts as lost. The default is a minute;
	// tests set another one before the first use.
	ReadTimeout time.Duration
	unread      Memo[unread]
}

// AwayError means that the output was not read because the engine or cluster does not answer at all.
type AwayError struct{ Err error }

func (e *AwayError) Error() string { return e.Err.Error() }

func (e *AwayError) Unwrap() error { return e.Err }

// Read returns how a job ended, without its kind and operation. If the outcome is not cached, Read calls read. read
// returns nil if the container was removed in the meantime, and Read then sets gone. While read fails, Read returns a
// job that cannot be inspected, and after ReadTimeout a job whose result is lost. A failure of read is not an error of
// the listing, because other jobs may be readable. It is not cached, because the next attempt may succeed. err is the
// error of ctx, or an [AwayError], which says nothing about this output.
func (o *Outcomes) Read(ctx context.Context, of workspace.ID, id string, read func(context.Context) (*JobEnd, error)) (
	job workspace.Job, gone bool, err error) {
	if job, ok := o.Get(of, id); ok {
		return job, false, nil
	}
	was, failed := o.unread.Get(of, id)
	if failed && was.slow && was.last.Elapsed() < readPause {
		return o.unknown(was), false, nil
	}
	bounded, cancel := context.WithTimeout(ctx, readLimit)
	defer cancel()
	end, err := read(bounded)
	var away *AwayError
	switch {
	case err != nil && (ctx.Err() != nil || errors.As(err, &away)):
		return workspace.Job{}, false, err
	case err != nil:
		next := unread{
			since: was.since, last: clock.Now(), slow: bounded.Err() != nil, why: CleanText(err.Error(), maxMessage),
		}
		if !failed || was.last.Elapsed() > unreadGap {
			next.since = next.last
		}
		o.unread.Put(of, id, next)
		return o.unknown(next), false, nil
	case end == nil:
		return workspace.Job{}, true, nil
	}
	job = end.Outcome()
	o.Put(of, id, job)
	o.unread.Drop(of, id)
	return job, false, nil
}

// unknown returns the state of an ended job whose output cannot be read.
func (o *Outcomes) unknown(u unread) workspace.Job {
	limit := cmp.Or(o.ReadTimeout, unreadLimit)
	if u.since.Elapsed() < limit {
		return workspace.Job{Unknown: u.why}
	}
	return workspace.Job{
		State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Disrupted: true, ResultLost: true,
		Message: CleanText(fmt.Sprintf("it has ended, and its result could not be read for %s, so it must "+
			"run again: %s", limit, u.why), maxMessage),
	}
}

// Retain is like [Memo.Retain].
func (o *Outcomes) Retain(of []workspace.ID, seen map[string]struct{}) {
	o.Memo.Retain(of, seen)
	o.unread.Retain(of, seen)
}
