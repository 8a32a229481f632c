package docker_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
)

var versionPrefix = regexp.MustCompile(`^/v[0-9.]+`)

// fakeEngine is an engine that does on demand what a real one does not: it has another version or id, or fails. It
// answers only the requests in answers, by method and path.
type fakeEngine struct {
	host    string // in the form of DOCKER_HOST
	version string
	answers map[string]http.HandlerFunc
}

func newFakeEngine(t *testing.T, id, version string) *fakeEngine {
	t.Helper()
	f := &fakeEngine{version: version, answers: map[string]http.HandlerFunc{
		"GET /info": answer(map[string]string{"ID": id, "SystemTime": time.Now().Format(time.RFC3339Nano)}), "GET /networks/none": refuse(http.StatusNotFound, "no such network"),
		"HEAD /_ping": answer(""), "GET /_ping": answer(""),
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", f.version)
		call := r.Method + " " + versionPrefix.ReplaceAllString(r.URL.Path, "")
		if h := f.answers[call]; h != nil {
			h(w, r)
			return
		}
		t.Errorf("the fake engine has no answer to %s", call)
		refuse(http.StatusNotImplemented, "what?")(w, r)
	}))
	t.Cleanup(server.Close)
	f.host = strings.Replace(server.URL, "http://", "tcp://", 1)
	return f
}

func (f *fakeEngine) backend(t *testing.T) backend.Backend {
	t.Helper()
	b, err := docker.New(docker.Options{Host: f.host, Installation: backendtest.Installation(), Image: "workspace:1", JobImage: "job:1"})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

func answer(v any) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(v)
	}
}

func refuse(status int, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"message":%q}`, message)
	}
}
