package backend

import (
	"cmp"
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// reportEvery is the least time between two readings of one job's output. It is less than a second,
// so that a caller that looks every second gets a new line. reportShare is the least time for each
// job that there is, so that many jobs do not keep the engine or cluster busy with reading.
// reportLimit is how long one reading may take.
const (
	reportEvery = 800 * time.Millisecond
	reportShare = 10 * time.Millisecond
	reportLimit = 2 * time.Second
)

// report is the progress of a running job, as it was read at that time.
type report struct {
	at   time.Time
	line string
}

// Reports caches the progress of running jobs, by the ids of their containers.
type Reports struct{ Memo[report] }

// ReportInterval is the least time between two readings of one job's output while there are
// so many jobs.
func ReportInterval(jobs int) time.Duration {
	return max(reportEvery, time.Duration(jobs)*reportShare)
}

// Progress returns the newest progress of a running job of a workspace, from the end of its output.
// It is a hint for people and timeouts. When the output cannot be read, the last one that was read
// stays. One that was read less than every ago is as good.
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
