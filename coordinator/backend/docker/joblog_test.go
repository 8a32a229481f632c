package docker_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestJobOutputUnreadable: if the output of one job cannot be read, other jobs are not affected. Reading the output is
// retried for a while. After that, the result counts as lost, but the job does not count as failed.
func TestJobOutputUnreadable(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	for name, fault := range map[string]func(r *http.Request) (*http.Response, error){
		"an error":    failing(http.MethodGet, "/logs", http.StatusInternalServerError, "the log is damaged"),
		"no such log": failing(http.MethodGet, "/logs", http.StatusNotFound, "the log is damaged"),
		"a broken pipe": func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("the log is damaged: %w", io.ErrUnexpectedEOF)
		},
		"it cannot wait": func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("the log is damaged: %w", context.DeadlineExceeded)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			installation := backendtest.Installation()
			b, impatient, broken, other := e.New(t, installation), e.New(t, installation), newID(), newID()
			docker.SetReadTimeout(impatient, time.Nanosecond)
			for _, id := range []workspace.ID{broken, other} {
				must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
				must(t, b.StartJob(t.Context(), backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op", Env: []string{"TEST_SIZE=3"}}))
			}
			path := "/containers/" + e.containersOf(t, broken)[0].ID + "/logs"
			repair := e.faults.add(func(r *http.Request) (*http.Response, error) {
				if !strings.HasSuffix(r.URL.Path, path) {
					return nil, nil
				}
				return fault(r)
			})
			both := func(b backend.Backend) (workspace.Job, workspace.Job) {
				t.Helper()
				all, err := b.Jobs(t.Context(), broken, other)
				must(t, err)
				if len(all[broken]) != 1 || len(all[other]) != 1 {
					t.Fatalf("jobs: %+v", all)
				}
				return all[broken][0], all[other][0]
			}
			wait.Until(t, "both have ended", func() bool {
				j, k := both(b)
				return j.State != workspace.JobRunning && k.State != workspace.JobRunning
			})
			if j, k := both(b); j.State != "" || !strings.Contains(j.Unknown, "the log is damaged") || k.State != workspace.JobSucceeded {
				t.Errorf("within a minute: %+v beside %+v", j, k)
			}
			if j, k := both(impatient); j.State != workspace.JobFailed || !j.ResultLost || !j.Disrupted || j.Unknown != "" ||
				!strings.Contains(j.Message, "the log is damaged") || k.State != workspace.JobSucceeded {
				t.Errorf("after a minute: %+v beside %+v", j, k)
			}
			repair()
			for _, b := range []backend.Backend{b, impatient} {
				if j, _ := both(b); j.State != workspace.JobSucceeded || j.Size != 3 {
					t.Errorf("a reading that failed is remembered: %+v", j)
				}
			}
		})
	}
}
