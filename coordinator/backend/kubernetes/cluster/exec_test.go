package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestExec(t *testing.T) {
	for name, tt := range map[string]struct {
		end  string
		code int
		err  string
	}{
		"success":   {end: `{"status":"Success"}`},
		"exit code": {end: `{"status":"Failure","reason":"NonZeroExitCode","details":{"causes":[{"reason":"ExitCode","message":"7"}]}}`, code: 7},
		"no shell":  {end: `{"status":"Failure","message":"exec: sh: not found"}`, err: "sh: not found"},
		"cut off":   {err: "ended before the command"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, "A")
			f.answers(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/api/v1/namespaces/here/pods/x/exec" {
					return false
				}
				if q := r.URL.Query(); q.Get("container") != "c" || strings.Join(q["command"], " ") != "sh -c a b" || q.Get("stdout") != "true" || q.Get("stderr") != "true" {
					t.Errorf("asked was %v", q)
				}
				conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{"v4.channel.k8s.io"}})
				if err != nil {
					t.Error(err)
					return true
				}
				defer conn.CloseNow()
				send := func(message string) { _ = conn.Write(r.Context(), websocket.MessageBinary, []byte(message)) }
				send("\x01")
				send("\x01hello ")
				send("\x02a warning")
				send("\x01world")
				if tt.end != "" {
					send("\x03" + tt.end)
				}
				return true
			})
			var out, errs writes
			code, err := f.connect().Exec(t.Context(), "x", "c", backend.Command{Words: []string{"sh", "-c", "a b"}}, &out, &errs)
			if code != tt.code || (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%d, %v", code, err)
			}
			if fmt.Sprintf("%q", out) != `["hello " "world"]` || fmt.Sprintf("%q", errs) != `["a warning"]` {
				t.Errorf("it printed %q and %q", out, errs)
			}
			var failed *NotStartedError
			if errors.As(err, &failed) != (name == "no shell") {
				t.Errorf("that it was not started: %v", err)
			}
		})
	}
}

// TestExecPassesInput: the cluster gets the input, and its end if the command has no terminal. If the protocol cannot
// signal the end, the command does not start.
func TestExecPassesInput(t *testing.T) {
	for name, tt := range map[string]struct {
		protocol string
		terminal *backend.Terminal
		query    string
		want     []string
		err      string
	}{
		"input":           {"v5.channel.k8s.io", nil, "stdin=true stderr=true tty=", []string{"\x00a", "\x00bc", "\xff\x00"}, ""},
		"a terminal":      {"v5.channel.k8s.io", &backend.Terminal{Size: backend.Size{Columns: 80, Rows: 24}}, "stdin=true stderr= tty=true", []string{"\x04" + `{"Width":80,"Height":24}`, "\x00a", "\x00bc"}, ""},
		"an old cluster":  {"v4.channel.k8s.io", nil, "stdin=true stderr=true tty=", nil, "Kubernetes 1.30"},
		"an old terminal": {"v4.channel.k8s.io", &backend.Terminal{}, "stdin=true stderr= tty=true", []string{"\x04" + `{"Width":0,"Height":0}`, "\x00a", "\x00bc"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, "A")
			heard := make(chan string, 10)
			f.answers(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/api/v1/namespaces/here/pods/x/exec" {
					return false
				}
				q := r.URL.Query()
				if got := "stdin=" + q.Get("stdin") + " stderr=" + q.Get("stderr") + " tty=" + q.Get("tty"); got != tt.query {
					t.Errorf("asked was %s", got)
				}
				conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{Subprotocols: []string{tt.protocol}})
				if err != nil {
					t.Error(err)
					return true
				}
				defer conn.CloseNow()
				for range tt.want {
					_, message, err := conn.Read(r.Context())
					if err != nil {
						t.Error(err)
						return true
					}
					heard <- string(message)
				}
				_ = conn.Write(r.Context(), websocket.MessageBinary, []byte("\x03"+`{"status":"Success"}`))
				return true
			})
			in := io.MultiReader(strings.NewReader("a"), strings.NewReader("bc"))
			_, err := f.connect().Exec(t.Context(), "x", "c", backend.Command{Words: []string{"cat"}, Stdin: in, Terminal: tt.terminal}, io.Discard, io.Discard)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Errorf("it ends with %v", err)
			}
			close(heard)
			for _, want := range tt.want {
				if got := <-heard; got != want {
					t.Errorf("the cluster gets %q, want %q", got, want)
				}
			}
		})
	}
}

// writes records the pieces that were written.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// TestExecRefused: the error has the cluster's reason.
func TestExecRefused(t *testing.T) {
	f := newFake(t, "A")
	c := f.connect()
	if _, err := c.Exec(t.Context(), "x", "c", backend.Command{Words: []string{"sh"}}, new(bytes.Buffer), nil); err == nil || !strings.Contains(Wrap("looking", err).Error(), "not found") {
		t.Errorf("%v", err)
	}
	f.answers(func(w http.ResponseWriter, r *http.Request) bool {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, `pods "x" is forbidden: User "u" cannot create resource "pods/exec" in API group "" in the namespace "here"`)
		return true
	})
	_, err := c.Exec(t.Context(), "x", "c", backend.Command{Words: []string{"sh"}}, new(bytes.Buffer), nil)
	if err = Wrap("looking", err); err == nil || !strings.Contains(err.Error(), "RBAC does not let u create pods/exec") {
		t.Errorf("%v", err)
	}
	f.answers(away)
	_, err = c.Exec(t.Context(), "x", "c", backend.Command{Words: []string{"sh"}}, new(bytes.Buffer), nil)
	if err = Wrap("looking", err); workspace.ReasonOf(err) != workspace.ReasonUnreachable {
		t.Errorf("%v", err)
	}
}
