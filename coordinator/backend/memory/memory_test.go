package memory

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// fixture is the [backendtest.Fixture] of one engine. There are no images here: the
// fixture itself does what the suite's image does, as a workspace and as a storage
// job, and its own error takes the place of a failed pull.
type fixture struct {
	engine *Engine

	mu    sync.Mutex
	files map[string][]byte // content of the volumes, by workspace and name
}

func TestConformance(t *testing.T) {
	f := &fixture{engine: NewEngine(), files: make(map[string][]byte)}
	t.Cleanup(f.engine.Close)
	backendtest.Run(t, f)
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func (f *fixture) New(t *testing.T, installation string) backend.Backend {
	b := f.engine.Backend(installation)
	b.Work = work
	b.Container = func(spec backend.StartSpec) (workspace.Container, error) {
		if spec.Image != "" {
			return workspace.Container{}, workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("image %q cannot be pulled", spec.Image))
		}
		server := f.serve(b, spec.ID)
		t.Cleanup(server.Close)
		return workspace.Container{Running: true, Ready: true, Endpoint: server.Listener.Addr().String(),
			StartedAt: time.Now(), Volume: true}, nil
	}
	return b
}

// serve does what the suite's image does as a workspace.
func (f *fixture) serve(b *Backend, id workspace.ID) *httptest.Server {
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	mux.HandleFunc("/exit", func(_ http.ResponseWriter, q *http.Request) {
		code, _ := strconv.Atoi(q.FormValue("code"))
		b.Exit(id, code, time.Since(began), fmt.Sprintf("serving\nexiting with %d\n", code))
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, q *http.Request) {
		name := string(id) + "/" + q.FormValue("name")
		body, err := io.ReadAll(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if q.Method == http.MethodPut {
			f.files[name] = body
			return
		}
		_, _ = w.Write(f.files[name])
	})
	return httptest.NewServer(mux)
}

// work does what the suite's image does as a storage job.
func work(ctx context.Context, spec backend.JobSpec) (int64, error) {
	env := make(map[string]string)
	for _, entry := range spec.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	if env["TEST_WAIT"] != "" {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	var end backend.JobEnd
	end.ExitCode, _ = strconv.Atoi(env["TEST_EXIT"])
	size, _ := strconv.ParseInt(env["TEST_SIZE"], 10, 64)
	if env["TEST_SILENT"] == "" {
		var err error
		end.Stdout, err = json.Marshal(contract.Result{
			Event: contract.EventResult, OK: end.ExitCode == contract.ExitOK, Size: size, Error: env["TEST_ERROR"],
		})
		if err != nil {
			return 0, err
		}
	}
	job := end.Outcome()
	if job.State == workspace.JobFailed {
		return 0, workspace.Fail(job.Reason, errors.New(job.Message))
	}
	return job.Size, nil
}

func (f *fixture) UnlabeledContainer(_ *testing.T, id workspace.ID) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.containers[id] = &container{}
}

func (f *fixture) UnlabeledVolume(_ *testing.T, id workspace.ID) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.volumes[id] = home{}
}

func (f *fixture) ContainerExists(_ *testing.T, id workspace.ID) bool {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return f.engine.containers[id] != nil
}

func (f *fixture) VolumeExists(_ *testing.T, id workspace.ID) bool {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	_, ok := f.engine.volumes[id]
	return ok
}

func (f *fixture) JobCount(_ *testing.T, id workspace.ID) int {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return len(f.engine.jobs[id])
}

func (f *fixture) MissingImage() string { return "no-such-image" }
