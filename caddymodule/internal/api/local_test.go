package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/zap"

	"github.com/codehub/gateway/caddymodule/internal/api"
	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/usage"
)

// local sends a request to a transport of this process.
func local(t *testing.T, transport http.RoundTripper, method, path string) (*http.Response, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return transport.RoundTrip(r)
}

// TestAnOperatorActsInThisProcessOnly: a request over the network has no user, even to a server with the same services.
func TestAnOperatorActsInThisProcessOnly(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	w := ann.Create("one")
	id := w["id"].(string)
	log := auditlog.New(in.store.DB, zap.NewNop())
	workspaces := service.New(in.store, service.Options{Inventory: in.inventory, Logger: zap.NewNop()})
	transport, err := api.Local(api.Options{Service: workspaces, Auth: in.auth, Audit: log, Usage: usage.New(in.store.DB)},
		audit.Actor{Kind: audit.Operator, Through: audit.CommandLine, Name: "root", Host: "here"})
	if err != nil {
		t.Fatal(err)
	}
	if _, served := transport.(http.Handler); served {
		t.Error("a server can serve the operator's API")
	}
	for _, header := range []string{"User-Agent: caddy codehub", "Authorization: Bearer cli", "X-Forwarded-For: 127.0.0.1", "X-Forwarded-Host: localhost"} {
		in.anyone().Do("DELETE", "/api/v1/workspaces/"+id, nil, header).Problem(t, http.StatusUnauthorized, "not-signed-in")
	}
	answer, err := local(t, transport, "DELETE", "/api/v1/workspaces/"+id)
	if err != nil || answer.StatusCode != http.StatusAccepted {
		t.Fatalf("%v: %+v", err, answer)
	}
	_ = answer.Body.Close()
	answer, err = local(t, transport, "GET", "/api/v1/workspaces/"+id+"/history?limit=1")
	if err != nil {
		t.Fatal(err)
	}
	var history v1.History[v1.Transition]
	if err := json.NewDecoder(answer.Body).Decode(&history); err != nil || len(history.Items) != 1 || history.Items[0].Cause != "cli" || history.Items[0].UserID != nil {
		t.Errorf("%v: the history has %+v", err, history.Items)
	}
	entries, err := log.List(t.Context(), auditlog.Filter{}, 1, nil)
	if err != nil || len(entries) != 1 || entries[0].Action != audit.WorkspaceDelete || entries[0].Actor.Kind != audit.Operator ||
		entries[0].Actor.Name != "root" || entries[0].Actor.Host != "here" || entries[0].Actor.Through != audit.CommandLine {
		t.Errorf("%v: the audit has %+v", err, entries)
	}
	// When a request is refused, the error still has its cause.
	if _, err := local(t, transport, "GET", "/api/v1/workspaces/"+strings.Repeat("0", 8)); !errors.Is(err, service.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}

func TestALocalAnswerArrivesAsItIsWritten(t *testing.T) {
	goOn, canceled := make(chan struct{}), make(chan struct{})
	answer, err := local(t, api.LocalTransport(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X", "y")
		w.WriteHeader(http.StatusAccepted)
		_, _ = io.WriteString(w, "first")
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Error(err)
		}
		<-goOn
		_, _ = io.WriteString(w, "second")
		<-r.Context().Done()
		close(canceled)
	}), "GET", "/")
	if err != nil || answer.StatusCode != http.StatusAccepted || answer.Header.Get("X") != "y" {
		t.Fatalf("%v: %+v", err, answer)
	}
	for _, want := range []string{"first", "second"} {
		got := make([]byte, len(want))
		if _, err := io.ReadFull(answer.Body, got); err != nil || string(got) != want {
			t.Errorf("got %q, %v", got, err)
		}
		if want == "first" {
			close(goOn)
		}
	}
	_ = answer.Body.Close()
	<-canceled
}

// If a handler panics, its answer is broken off. If a request is canceled, it gets no answer.
func TestALocalAnswerThatEndsEarly(t *testing.T) {
	if answer, err := local(t, api.LocalTransport(func(http.ResponseWriter, *http.Request) {}), "GET", "/"); err != nil || answer.StatusCode != http.StatusOK {
		t.Errorf("an empty answer: %v, %+v", err, answer)
	} else if text, err := io.ReadAll(answer.Body); len(text) != 0 || err != nil {
		t.Errorf("an empty answer has %q, %v", text, err)
	}
	if _, err := local(t, api.LocalTransport(func(http.ResponseWriter, *http.Request) { panic("x") }), "GET", "/"); err == nil {
		t.Error("a panic before the answer is a success")
	}
	answer, err := local(t, api.LocalTransport(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "a part")
		panic(http.ErrAbortHandler)
	}), "GET", "/")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(answer.Body); string(text) != "a part" || !errors.Is(err, http.ErrAbortHandler) {
		t.Errorf("got %q, %v", text, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	in := newHarness(t)
	transport, err := api.Local(api.Options{Service: service.New(in.store, service.Options{}), Auth: in.auth, Audit: auditlog.New(in.store.DB, zap.NewNop()),
		Usage: usage.New(in.store.DB)}, audit.Actor{Kind: audit.Operator})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/api/v1/workspaces?all=true", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := transport.RoundTrip(r); !errors.Is(err, context.Canceled) {
		t.Errorf("a canceled request: %v", err)
	}
}
