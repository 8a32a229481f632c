package kubernetes_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestAResultThatCannotBeRead: the job has ended, and its node or its disk does not give its
// output. Nothing is known of that job then, and everything of the others; a minute later it is
// to be done again.
func TestAResultThatCannotBeRead(t *testing.T) {
	e := newEngine(t)
	for what, refuse := range map[string]func(*http.Request) (*http.Response, error){
		"the node is away":               status(http.StatusInternalServerError, "InternalError"),
		"the node does not know the Pod": status(http.StatusNotFound, "NotFound"),
		"the node hangs": func(r *http.Request) (*http.Response, error) {
			<-r.Context().Done()
			return nil, r.Context().Err()
		},
	} {
		t.Run(what, func(t *testing.T) {
			ctx, lost, other := backendtest.Context(t), newID(), newID()
			job := func(id workspace.ID) backend.JobSpec {
				return backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op"}
			}
			o := e.options(backendtest.Installation())
			o.Transport = func(next http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if strings.HasSuffix(r.URL.Path, "/log") && strings.Contains(r.URL.Path, "/"+e.JobName(job(lost))) {
						return refuse(r)
					}
					return next.RoundTrip(r)
				})
			}
			b := e.with(t, o)
			for _, id := range []workspace.ID{lost, other} {
				must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
				must(t, b.StartJob(ctx, job(id)))
			}
			jobs := func() (the, others workspace.Job) {
				t.Helper()
				all, err := b.Jobs(ctx)
				must(t, err)
				if len(all[lost]) != 1 || len(all[other]) != 1 {
					t.Fatalf("jobs: %+v", all)
				}
				return all[lost][0], all[other][0]
			}
			wait.Until(t, "both have ended", func() bool {
				the, others := jobs()
				return the.Unknown != "" && others.State == workspace.JobSucceeded
			})
			pods, _ := e.of(t, lost)
			pod := string(pods[0].UID)
			kubernetes.ReadEarlier(b, lost, pod, kubernetes.LostAfter-30*time.Second)
			if the, others := jobs(); the.Unknown == "" || the.State != "" || others.State != workspace.JobSucceeded {
				t.Errorf("before the minute is over: %+v and %+v", the, others)
			}
			kubernetes.ReadEarlier(b, lost, pod, kubernetes.LostAfter)
			if the, _ := jobs(); the.State != workspace.JobFailed || !the.Disrupted || the.Kind != workspace.JobArchive || !strings.Contains(the.Message, "could not be read") {
				t.Errorf("afterwards: %+v", the)
			}
		})
	}
}

// status answers like an API server that fails with that code.
func status(code int, reason string) func(*http.Request) (*http.Response, error) {
	body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"` + reason + `","message":"it is broken"}`
	return func(r *http.Request) (*http.Response, error) {
		return &http.Response{
			Status: http.StatusText(code), StatusCode: code, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(body)), Request: r,
		}, nil
	}
}
