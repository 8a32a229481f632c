package coordinator

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestServersThatComeLater: an outage at the start is logged once per server. The bucket is marked
// when its store answers, and the Redis client logs at debug level only. It is not parallel:
// go-redis has one logger for the whole process.
func TestServersThatComeLater(t *testing.T) {
	var asked atomic.Int32
	var marker atomic.Pointer[[]byte]
	s3 := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		object := strings.HasSuffix(r.URL.Path, archive.MarkerKey)
		switch written := marker.Load(); {
		case asked.Add(1) == 1:
			w.WriteHeader(http.StatusForbidden) // not retried by the client itself
		case object && r.Method == http.MethodPut:
			content, _ := io.ReadAll(r.Body)
			marker.Store(&content)
		case object && written != nil:
			_, _ = w.Write(*written)
		case object:
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, "<Error><Code>NoSuchKey</Code></Error>")
		}
	}))
	defer s3.Close()
	core, logs := observer.New(zap.DebugLevel)
	c, err := New(Options{
		Database: devenv.PostgreSQL(t), Redis: "unix://" + t.TempDir() + "/no.sock",
		Archive: archive.Options{Endpoint: s3.URL, Bucket: "late", AccessKey: "key", SecretKey: "secret", PathStyle: true},
		Docker:  docker.Options{Installation: "test", Image: "workspace", JobImage: "job"},
	}, zap.New(core))
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	if err := c.store.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.awaitServers(t.Context()); err != nil {
		t.Fatal(err)
	}
	if written := marker.Load(); written == nil || !strings.Contains(string(*written), "test") {
		t.Errorf("the bucket's marker does not name the installation: %v", written)
	}
	for text, level := range map[string]zapcore.Level{"redis cannot be reached": zap.WarnLevel,
		"object store cannot be used": zap.ErrorLevel, "object store can be used": zap.InfoLevel} {
		if n := logs.FilterLevelExact(level).FilterMessageSnippet(text).Len(); n != 1 {
			t.Errorf("%q was logged %d times at level %s", text, n, level)
		}
	}
	wait.Until(t, "the Redis client has logged to the coordinator's logger", func() bool { return logs.FilterLevelExact(zap.DebugLevel).Len() > 0 })
}
