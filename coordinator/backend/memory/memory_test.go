package memory

import (
	"context"
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
)

// fixture is the [backendtest.Fixture] of one engine. There are no images here: it
// plays the parts of the suite's image, a workspace and a storage job, itself, and
// the case of an image that cannot be had shows what Start makes of such an error.
type fixture struct {
	engine *Engine

	mu    sync.Mutex
	files map[string][]byte // by workspace and name: what is on the volumes
}

func TestConformance(t *testing.T) {
	b := &fixture{engine: NewEngine(), files: make(map[string][]byte)}
	t.Cleanup(b.engine.Close)
	backendtest.Run(t, b)
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func (b *fixture) New(t *testing.T, installation string) backend.Backend {
	r := b.engine.Backend(installation)
	r.Work = work
	r.Container = func(spec backend.StartSpec) (workspace.Container, error) {
		if spec.Image != "" {
			return workspace.Container{}, workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("image %q cannot be had", spec.Image))
		}
		server := b.serve(r, spec.ID)
		t.Cleanup(server.Close)
		return workspace.Container{Running: true, Ready: true, Endpoint: server.Listener.Addr().String(),
			StartedAt: time.Now(), Volume: true}, nil
	}
	return r
}

// serve is the suite's workspace.
func (b *fixture) serve(r *Backend, id workspace.ID) *httptest.Server {
	began := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	mux.HandleFunc("/exit", func(_ http.ResponseWriter, q *http.Request) {
		code, _ := strconv.Atoi(q.FormValue("code"))
		r.Exit(id, code, time.Since(began), fmt.Sprintf("serving\nleaving with %d\n", code))
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, q *http.Request) {
		name := string(id) + "/" + q.FormValue("name")
		body, err := io.ReadAll(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		b.mu.Lock()
		defer b.mu.Unlock()
		if q.Method == http.MethodPut {
			b.files[name] = body
			return
		}
		_, _ = w.Write(b.files[name])
	})
	return httptest.NewServer(mux)
}

// work is the suite's storage job, and what a runtime makes of its end.
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
	code, _ := strconv.Atoi(env["TEST_EXIT"])
	size, _ := strconv.ParseInt(env["TEST_SIZE"], 10, 64)
	text := env["TEST_ERROR"]
	switch {
	case env["TEST_SILENT"] != "" && code == 0:
		return 0, errors.New("it ended without a result")
	case env["TEST_SILENT"] != "":
		return 0, fmt.Errorf("exit code %d", code)
	case code == 13:
		return 0, errors.New("the disk is full: " + text)
	case code != 0:
		reasons := map[int]workspace.ErrorReason{10: workspace.ReasonArchiveCorrupted, 11: workspace.ReasonDataLost, 12: workspace.ReasonUnreachable}
		if reason, ok := reasons[code]; ok {
			return 0, workspace.Fail(reason, errors.New(text))
		}
		return 0, errors.New(text)
	}
	return size, nil
}

func (b *fixture) ForeignContainer(_ *testing.T, id workspace.ID) {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.engine.containers[id] = &container{}
}

func (b *fixture) ForeignVolume(_ *testing.T, id workspace.ID) {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	b.engine.volumes[id] = ""
}

func (b *fixture) ContainerExists(_ *testing.T, id workspace.ID) bool {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	return b.engine.containers[id] != nil
}

func (b *fixture) VolumeExists(_ *testing.T, id workspace.ID) bool {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	_, ok := b.engine.volumes[id]
	return ok
}

func (b *fixture) JobCount(_ *testing.T, id workspace.ID) int {
	b.engine.mu.Lock()
	defer b.engine.mu.Unlock()
	return len(b.engine.jobs[id])
}

func (b *fixture) MissingImage() string { return "no-such-image" }
