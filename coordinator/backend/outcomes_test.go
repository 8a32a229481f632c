package backend_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// reading is the output of one job. While err is set, the output cannot be read: each read fails, immediately or after
// it has hung.
type reading struct {
	o     backend.Outcomes
	err   error
	hangs bool
	reads int
}

func (r *reading) read(ctx context.Context) (workspace.Job, error) {
	job, _, err := r.o.Read(ctx, "ws", "pod", func(ctx context.Context) (*backend.JobEnd, error) {
		r.reads++
		if r.hangs {
			<-ctx.Done()
			return nil, fmt.Errorf("reading: %w", ctx.Err())
		}
		return &backend.JobEnd{Stdout: []byte(`{"event":"result","ok":true,"contract":1,"size":7}`)}, r.err
	})
	return job, err
}

// is fails the test unless the job is unknown, lost, or done, as wanted.
func (r *reading) is(t *testing.T, when, want string) {
	t.Helper()
	job, err := r.read(t.Context())
	got := "done"
	switch {
	case job.Unknown != "" && job.State == "":
		got = "unknown"
	case job.ResultLost && job.State == workspace.JobFailed && job.Reason == workspace.ReasonActionFailed && job.Disrupted:
		got = "lost"
	case job.State != workspace.JobSucceeded || job.Size != 7:
		got = "something else"
	}
	if says := job.Unknown + job.Message; err != nil || got != want || r.err != nil && !strings.Contains(says, r.err.Error()) {
		t.Errorf("%s: %+v, %v, want it %s", when, job, err, want)
	}
}

// TestOutputIsUnreadable: reading the output is retried for a minute, and then the job's result counts as lost. That is
// not remembered.
func TestOutputIsUnreadable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reading{err: errors.New("the log is damaged")}
		r.is(t, "at first", "unknown")
		for range 3 {
			<-time.After(19 * time.Second)
			r.is(t, "within a minute", "unknown")
		}
		<-time.After(4 * time.Second)
		r.is(t, "after a minute", "lost")
		<-time.After(time.Second)
		r.is(t, "still", "lost")
		r.err = nil
		r.is(t, "after the repair", "done")
		reads := r.reads
		if r.is(t, "later", "done"); r.reads != reads {
			t.Error("an end that is known was read again")
		}
	})
}

// TestNobodyTriedToRead: after a long time without any attempt, the minute starts anew. Each job has a minute of its
// own.
func TestNobodyTriedToRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := reading{err: errors.New("the cluster is away")}
		r.is(t, "before", "unknown")
		<-time.After(5 * time.Minute)
		r.is(t, "after an outage", "unknown")
		<-time.After(time.Minute)
		r.is(t, "a minute later", "lost")
		r.o.Retain(nil, map[string]struct{}{"another": {}})
		r.is(t, "another one of that id", "unknown")
	})
}

// TestReadingHangs: each reading has a limit, and one that timed out is not repeated immediately. A read that the
// caller cancelled, or to which the cluster did not answer, says nothing about the output.
func TestReadingHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, began := reading{hangs: true}, time.Now()
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		if job, err := r.read(gone); !errors.Is(err, context.Canceled) || job.Unknown != "" {
			t.Errorf("a caller that has gone: %+v, %v", job, err)
		}
		r.hangs, r.err = false, &backend.AwayError{Err: errors.New("nothing answers")}
		if job, err := r.read(t.Context()); !errors.Is(err, r.err) || job != (workspace.Job{}) {
			t.Errorf("nothing answers: %+v, %v", job, err)
		}
		r.hangs, r.err = true, nil
		for range 100 {
			r.is(t, "while it hangs", "unknown")
		}
		if d := time.Since(began); d > 5*time.Second || r.reads != 3 {
			t.Errorf("100 listings waited for %s, in %d readings", d, r.reads)
		}
		<-time.After(15 * time.Second)
		r.hangs = false
		r.is(t, "it does not hang any more", "done")
	})
}
