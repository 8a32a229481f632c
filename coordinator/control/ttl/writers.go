package ttl

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
)

// presumedDead is how long the runner waits for a silent process. A gateway that has not reached PostgreSQL for the
// same time holds its requests (SPEC 8). So no more requests pass through a process that is presumed dead, even if it
// still has activity to report.
const presumedDead = 10 * time.Minute

// goneFor is how long a process must have had no session of PostgreSQL to count as gone. PostgreSQL ends the session of
// a killed process immediately, and all sessions when it restarts. A live process has a new session within seconds.
const goneFor = 30 * time.Second

// flushBarrier knows which processes have written their activity since the last outage (SPEC 12.10). Its times
// are the database's. The zero value begins with an outage. It is not safe for concurrent use.
type flushBarrier struct {
	since time.Time            // of the first reading after the outage
	gone  map[string]time.Time // when each instance without a session was first seen so
}

// reset records an outage. That is so if PostgreSQL or Redis did not answer or has lost data, or if there was no
// leader. No workspace is judged until every process has written once more.
func (r *flushBarrier) reset() { *r = flushBarrier{} }

// check returns the processes whose activity may be missing, and the time up to which all living processes have written
// their activity. A later use may still be only in the memory of a process. It also returns the newest migration that
// all processes know.
func (r *flushBarrier) check(w postgres.Writers) (upTo time.Time, missing []postgres.Writer, knows int) {
	upTo, knows = w.Now, math.MaxInt
	if r.since.IsZero() {
		r.since, r.gone = w.Now, make(map[string]time.Time)
	}
	for _, p := range w.All {
		if !p.Gone {
			delete(r.gone, p.Instance)
		} else if _, known := r.gone[p.Instance]; !known {
			r.gone[p.Instance] = w.Now
		}
		since, gone := r.gone[p.Instance]
		dead := w.Now.Sub(p.FlushedAt) > presumedDead || gone && w.Now.Sub(since) >= goneFor
		if !dead && p.FlushedAt.Before(upTo) {
			upTo = p.FlushedAt
		}
		if !dead {
			knows = min(knows, p.Knows)
		}
		if (p.Late || p.FlushedAt.Before(r.since)) && !dead {
			missing = append(missing, p)
		}
	}
	return upTo, missing, knows
}

// lateError returns an error that names the processes that have not written in time, as they had promised. It returns
// nil if the missing processes still have time to write.
func lateError(missing []postgres.Writer) error {
	var names []string
	for _, p := range missing {
		if p.Late {
			names = append(names, fmt.Sprintf("%s (instance %s) has written nothing since %s",
				p.Node, p.Instance, p.FlushedAt.Format(time.RFC3339)))
		}
	}
	if names == nil {
		return nil
	}
	return fmt.Errorf("%s; check whether it runs and reaches PostgreSQL, or kill it", strings.Join(names, "; "))
}
