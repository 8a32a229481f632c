package cluster

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/coder/websocket"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
		"cut off":   {err: "has ended before it"},
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
			code, err := f.connect().Exec(t.Context(), "x", "c", []string{"sh", "-c", "a b"}, &out, &errs)
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

// writes are what was written, piece by piece.
type writes []string

func (w *writes) Write(p []byte) (int, error) {
	*w = append(*w, string(p))
	return len(p), nil
}

// TestExecRefused: the cluster says why.
func TestExecRefused(t *testing.T) {
	f := newFake(t, "A")
	c := f.connect()
	if _, err := c.Exec(t.Context(), "x", "c", []string{"sh"}, new(bytes.Buffer), nil); err == nil || !strings.Contains(Wrap("looking", err).Error(), "not found") {
		t.Errorf("%v", err)
	}
	f.answers(func(w http.ResponseWriter, r *http.Request) bool {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, `pods "x" is forbidden: User "u" cannot create resource "pods/exec" in API group "" in the namespace "here"`)
		return true
	})
	_, err := c.Exec(t.Context(), "x", "c", []string{"sh"}, new(bytes.Buffer), nil)
	if err = Wrap("looking", err); err == nil || !strings.Contains(err.Error(), "RBAC does not let u create pods/exec") {
		t.Errorf("%v", err)
	}
	f.answers(away)
	_, err = c.Exec(t.Context(), "x", "c", []string{"sh"}, new(bytes.Buffer), nil)
	if err = Wrap("looking", err); workspace.ReasonOf(err) != workspace.ReasonUnreachable {
		t.Errorf("%v", err)
	}
}
