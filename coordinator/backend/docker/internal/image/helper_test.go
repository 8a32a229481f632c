package image

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
)

// TestAbandoned: the age of a helper is measured by its engine's clock, which may differ from this process's. A test
// cannot set a real engine's clock.
func TestAbandoned(t *testing.T) {
	for _, ahead := range []time.Duration{-3 * time.Hour, 0, 3 * time.Hour} {
		theirs := time.Now().Add(ahead)
		var removed []string
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch path := r.URL.Path; {
			case strings.HasSuffix(path, "/info"):
				fmt.Fprintf(w, `{"ID":"A","SystemTime":%q}`, theirs.Format(time.RFC3339Nano))
			case strings.HasSuffix(path, "/containers/json"):
				fmt.Fprintf(w, `[{"Id":"old","Created":%d,"Labels":{"of":"us"}},{"Id":"young","Created":%d,"Labels":{"of":"us"}}]`,
					theirs.Add(-abandoned-time.Minute).Unix(), theirs.Unix())
			case r.Method == http.MethodDelete:
				removed = append(removed, path[strings.LastIndex(path, "/")+1:])
			default:
				w.WriteHeader(http.StatusNotFound)
				fmt.Fprint(w, `{"message":"no such network"}`)
			}
		}))
		defer s.Close()
		api, err := engine.Connect("tcp://"+strings.TrimPrefix(s.URL, "http://"), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer api.Close()
		h := Helper{API: api}
		if err := h.removeAbandoned(t.Context(), map[string]string{"of": "us"}); err != nil || len(removed) != 1 || removed[0] != "old" {
			t.Errorf("an engine that is %s ahead: removed %v (%v), want the old one", ahead, removed, err)
		}
	}
}
