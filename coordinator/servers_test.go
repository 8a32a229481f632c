package coordinator

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
)

// TestServersThatComeLater: an outage at the start is logged once per server, the bucket
// is created when its store answers, and the Redis client logs at debug level only.
func TestServersThatComeLater(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	s3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) == 1 {
			w.WriteHeader(http.StatusForbidden) // not retried by the client itself
		}
	}))
	defer s3.Close()
	core, logs := observer.New(zap.DebugLevel)
	c, err := New(Options{
		Database: "postgres://nobody@192.0.2.1/none", Redis: "unix://" + t.TempDir() + "/no.sock",
		Archive: archive.Options{Endpoint: s3.URL, Bucket: "late", AccessKey: "key", SecretKey: "secret", PathStyle: true},
		Docker:  docker.Options{Installation: "test", Image: "workspace", JobImage: "job"},
	}, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.awaitServers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the bucket was checked %d times, want 2", n)
	}
	for text, want := range map[string]int{"redis cannot be reached": 1, "object store cannot be used": 1, "object store can be used": 1} {
		if n := logs.FilterLevelExact(zap.WarnLevel).FilterMessageSnippet(text).Len() +
			logs.FilterLevelExact(zap.InfoLevel).FilterMessageSnippet(text).Len(); n != want {
			t.Errorf("%q was logged %d times, want %d", text, n, want)
		}
	}
	if logs.FilterLevelExact(zap.DebugLevel).Len() == 0 {
		t.Error("the Redis client does not log to the coordinator's logger")
	}
}
