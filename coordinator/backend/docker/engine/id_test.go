package engine

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

func TestMain(m *testing.M) { wait.Main(m) }

// fake starts an engine with that answer to GET /info. data returns the id of its data folder; "" means that the engine
// reports none. It returns a client, and counts the calls other than questions for the id.
func fake(t *testing.T, info http.HandlerFunc, data func() string) (*Client, *atomic.Int64) {
	t.Helper()
	calls := new(atomic.Int64)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/info":
			info(w, r)
		case "/networks/none":
			if id := data(); id == "" {
				http.NotFound(w, r)
			} else {
				fmt.Fprintf(w, `{"Name":"none","Id":%q}`, id)
			}
		default:
			calls.Add(1)
		}
	}))
	t.Cleanup(s.Close)
	c, err := Connect("tcp://"+strings.TrimPrefix(s.URL, "http://"), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c, calls
}

// TestIdentity: an engine whose data folder is not mounted claims to be the same engine as before on that machine, but
// has other data.
func TestIdentity(t *testing.T) {
	for data, want := range map[string]string{
		"": "A", "12": "A/12", strings.Repeat("1", 64): "A/111111111111", strings.Repeat("2", 64): "A/222222222222",
	} {
		c, _ := fake(t, func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"ID":"A","Name":"x"}`) }, func() string { return data })
		if id, err := c.Identity(t.Context()); id != want || err != nil {
			t.Errorf("data folder %q: %q, %v, want %q", data, id, err, want)
		}
	}
}

// TestAnEngineIsAskedOnceForWhatIsExpensive: each further connection to the same data folder costs only one small
// question. Another data folder is still noticed.
func TestAnEngineIsAskedOnceForWhatIsExpensive(t *testing.T) {
	var asked atomic.Int64
	var data atomic.Value
	c, _ := fake(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		fmt.Fprint(w, `{"ID":"A"}`)
	}, func() string { return data.Load().(string) })
	connect := func() error {
		c.base.CloseIdleConnections()
		return c.Answers(t.Context())
	}
	data.Store("12")
	for range 3 {
		if err := connect(); err != nil {
			t.Fatal(err)
		}
		if id, err := c.Identity(t.Context()); id != "A/12" || err != nil || asked.Load() != 1 {
			t.Errorf("%q, %v, asked %d times", id, err, asked.Load())
		}
	}
	data.Store("34")
	if err := connect(); err == nil || !strings.Contains(err.Error(), "another Docker engine, A/34") || asked.Load() != 2 {
		t.Errorf("another data folder: %v, asked %d times", err, asked.Load())
	}
}

func TestAnEngineWhoseIDCannotBeHad(t *testing.T) {
	for name, info := range map[string]http.HandlerFunc{
		"a proxy forbids it": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not you", http.StatusForbidden) },
		"no JSON":            func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") },
		"no id":              func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "{}") },
		"nothing is there":   http.NotFound,
		"it hangs up":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"one request only": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Connection", "close")
			fmt.Fprint(w, `{"ID":"A"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, calls := fake(t, info, func() string { return "" })
			if err := c.Answers(t.Context()); err == nil || !strings.Contains(err.Error(), "asking the engine for its id") {
				t.Errorf("a call: %v", err)
			}
			if id, err := c.Identity(t.Context()); id != "" || err == nil {
				t.Errorf("Identity: %q, %v", id, err)
			}
			if calls.Load() != 0 {
				t.Error("an unknown engine got a call")
			}
		})
	}
}
