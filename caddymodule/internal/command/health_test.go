package command_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
	"github.com/codehub/gateway/coordinator/version"
)

func TestHealth(t *testing.T) {
	status := http.StatusServiceUnavailable
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/health/ready" {
			t.Errorf("it asks for %s", r.URL.Path)
		}
		http.Error(w, "starting", status)
	}))
	defer server.Close()
	commandtest.Run(t, nil, "health", server.URL+"/").Want(t, 1, "the server is not ready: 503", "starting")
	status = http.StatusOK
	commandtest.Run(t, nil, "health", server.URL).Want(t, 0)
	server.Close()
	commandtest.Run(t, nil, "health", server.URL).Want(t, 1, "asking whether the server is ready")
	commandtest.Run(t, nil, "health", "one", "two").Want(t, 2, "2 arguments instead of 0")
}

func TestVersion(t *testing.T) {
	commandtest.Run(t, nil, "version").Want(t, 0, version.String())
	commandtest.Run(t, nil, "version", "now").Want(t, 2, "1 argument instead of 0")
}
