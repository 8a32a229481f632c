package backend

import (
	"cmp"
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// reportEvery is the least time between two readings of one job's output. It is less than a second, so that a caller
// that reads once a second gets a new line each time. With many jobs the least time is reportShare multiplied by their
// number, so that the readings do not keep the engine or cluster busy. reportLimit bounds one reading.
const (
	reportEvery = 800 * time.Millisecond
	reportShare = 10 * time.Millisecond
	reportLimit = 2 * time.Second
)

// report is the progress of a running job when it was read.
type report struct {
	at   time.Time
	line string
}

// Reports caches the progress of running jobs, by the ids of their containers.
type Reports struct{ Memo[report] }

// ReportInterval returns the least time between two readings of one job's output while there are that many jobs.
func ReportInterval(jobs int) time.Duration {
	return max(reportEvery, time.Duration(jobs)*reportShare)
}

// Progress returns the newest progress of a workspace's running job, from the end of its output. It is a hint for users
// and timeouts. If the output cannot be read, the previous progress stays. Progress that was read less than every ago
// is still good.
func (r *Reports) Progress(ctx context.Context, of workspace.ID, id string, every time.Duration,
	output func(context.Context) ([]byte, error)) string {
	last, ok := r.Get(of, id)
	if ok && time.Since(last.at) < every {
		return last.line
	}
	ctx, cancel := context.WithTimeout(ctx, reportLimit)
	defer cancel()
	next := report{at: time.Now(), line: last.line}
	if stdout, err := output(ctx); err == nil {
		next.line = cmp.Or(ProgressOf(stdout), last.line)
	}
	r.Put(of, id, next)
	return next.line
}
