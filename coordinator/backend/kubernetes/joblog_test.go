package kubernetes_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestJobLogUnreadable: if the log of one Pod cannot be read, other jobs are not affected. The job stays listed, and
// the backend tries to read its log for a while. After that the result counts as lost, which is not a failure of the
// job.
func TestJobLogUnreadable(t *testing.T) {
	e := newEngine(t)
	status := func(code int, reason metav1.StatusReason) func(*http.Request) (*http.Response, error) {
		return func(r *http.Request) (*http.Response, error) {
			return refusal(r, code, reason, "the log is damaged"), nil
		}
	}
	for name, c := range map[string]struct {
		fault func(*http.Request) (*http.Response, error)
		says  string
	}{
		"its node is away":       {status(http.StatusInternalServerError, metav1.StatusReasonInternalError), "the log is damaged"},
		"there is no such log":   {status(http.StatusNotFound, metav1.StatusReasonNotFound), "the log is damaged"},
		"the node does not know": {status(http.StatusBadRequest, metav1.StatusReasonBadRequest), "the log is damaged"},
		"the connection is cut":  {func(*http.Request) (*http.Response, error) { return nil, io.ErrUnexpectedEOF }, io.ErrUnexpectedEOF.Error()},
		"nothing answers": {func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		}, context.DeadlineExceeded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			installation, broken, other, ctx := backendtest.Installation(), newID(), newID(), backendtest.Context(t)
			b := e.New(t, installation)
			for _, id := range []workspace.ID{broken, other} {
				must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
				must(t, b.StartJob(ctx, backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op2", Env: []string{"TEST_SIZE=3"}}))
			}
			jobs := func(b backend.Backend) (workspace.Job, workspace.Job) {
				t.Helper()
				all, err := b.Jobs(ctx)
				must(t, err)
				if len(all[broken]) != 1 || len(all[other]) != 1 {
					t.Fatalf("jobs: %+v", all)
				}
				return all[broken][0], all[other][0]
			}
			wait.Until(t, "both have succeeded", func() bool {
				j, k := jobs(b)
				return j.State == workspace.JobSucceeded && k.State == workspace.JobSucceeded
			})
			o := e.options(installation)
			o.Transport = func(next http.RoundTripper) http.RoundTripper {
				next = record(next)
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/log") && strings.Contains(r.URL.Path, "/"+broken.ContainerName()+"-") {
						return c.fault(r)
					}
					return next.RoundTrip(r)
				})
			}
			within, after := e.with(t, o), e.with(t, o) // they have read neither
			kubernetes.SetReadTimeout(after, time.Nanosecond)
			if j, k := jobs(within); j.State != "" || !strings.Contains(j.Unknown, c.says) || k.State != workspace.JobSucceeded {
				t.Errorf("within a minute: %+v beside %+v", j, k)
			}
			if j, k := jobs(after); j.State != workspace.JobFailed || !j.ResultLost || !j.Disrupted || !strings.Contains(j.Message, c.says) || k.State != workspace.JobSucceeded {
				t.Errorf("after a minute: %+v beside %+v", j, k)
			}
			began := time.Now()
			for range 100 {
				jobs(within)
			}
			if d := time.Since(began); d > 3*time.Second {
				t.Errorf("100 listings took %s", d)
			}
		})
	}
}
