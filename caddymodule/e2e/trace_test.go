package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/collector"
	"github.com/codehub/gateway/coordinator/wait"
)

// traced starts a second process of the installation, with an access log and traces. It does not lead.
func (in *installation) traced(t *testing.T, to *collector.Collector) *installation {
	t.Helper()
	text, err := os.ReadFile(in.config)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	second := *in
	second.config = filepath.Join(dir, "Caddyfile")
	on := strings.NewReplacer("\t# log\n", "\tlog\n", "\t# tracing\n", "\ttracing\n").Replace(string(text))
	if err := os.WriteFile(second.config, []byte(on), 0o600); err != nil {
		t.Fatal(err)
	}
	second.port, second.adminSocket, second.log = freePort(t), filepath.Join(dir, "admin.sock"), &logBuffer{}
	second.env = append(slices.Clone(in.env), "COORDINATOR_NODE_ID=serves",
		fmt.Sprintf("CODEHUB_HTTP_PORT=%d", second.port), "CODEHUB_ADMIN_ADDRESS=unix/"+second.adminSocket)
	second.start(t)
	t.Cleanup(func() {
		to.Hang(true) // the end of the process does not wait for a collector
		began := time.Now()
		second.stop(t)
		if took := time.Since(began); took > 15*time.Second {
			t.Errorf("the process took %s to stop while the collector hangs", took)
		}
		to.Hang(false)
		if t.Failed() {
			t.Logf("the log of the second process:\n%s", second.log)
		}
	})
	return &second
}

// oneTrace checks the trace of a request that has woken an archived workspace. All spans, from both processes and the
// storage job, are one tree. Lines in the logs of both processes have the id of the trace.
func oneTrace(t *testing.T, to *collector.Collector, id string, leader, serves *installation) {
	t.Helper()
	var all []collector.Span
	wait.For(t, "the trace of the request has come", func() error {
		all = nil
		var trace string
		spans := to.Spans()
		for _, s := range spans {
			if s.Name == "hold" && s.Attributes["workspace"] == id {
				trace = s.Trace
			}
		}
		for _, s := range spans {
			if s.Trace == trace {
				all = append(all, s)
			}
		}
		for _, name := range []string{"handler", "hold", "wake", "operation RESTORING", "job run", "operation STARTING", "first answer"} {
			if !slices.ContainsFunc(all, func(s collector.Span) bool { return s.Name == name }) {
				return errors.New("it has no " + name)
			}
		}
		return nil
	})
	byID, byName := make(map[string]collector.Span), make(map[string]collector.Span)
	for _, s := range all {
		byID[s.ID], byName[s.Name] = s, s
	}
	roots := 0
	for _, s := range all {
		above, ok := byID[s.Parent]
		switch {
		case s.Parent == "":
			roots++
		case !ok:
			t.Errorf("what %q is a part of is not in the trace", s.Name)
		}
		if s.End.Before(s.Start) || ok && s.Start.Before(above.Start.Add(-time.Second)) {
			t.Errorf("%q is from %s to %s, and began before %q", s.Name, s.Start, s.End, above.Name)
		}
	}
	if roots != 1 {
		t.Errorf("the trace has %d roots", roots)
	}
	for _, chain := range [][]string{
		{"handler", "hold", "wake", "operation RESTORING", "action restore", "backend StartJob"},
		{"operation RESTORING", "job run", "job unpack"}, {"job run", "job swap"},
		{"wake", "operation STARTING", "action start", "backend Start"}, {"wake", "first answer"},
	} {
		for i, name := range chain[1:] {
			if got := byID[byName[name].Parent].Name; got != chain[i] {
				t.Errorf("%q is a part of %q, want %q", name, got, chain[i])
			}
		}
	}
	for name, process := range map[string]string{"hold": "serves", "wake": "serves", "first answer": "serves",
		"operation RESTORING": "leads", "job run": "leads", "backend Start": "leads"} {
		if got := byName[name].Process; got != process {
			t.Errorf("%q is of the process %q, want %q", name, got, process)
		}
	}
	if hold, run := byName["hold"], byName["job run"]; hold.End.Sub(hold.Start) < run.End.Sub(run.Start) {
		t.Error("the request was held for less time than the storage job took")
	}
	trace := all[0].Trace
	access := logged(t, serves, func(l map[string]any) bool { return l["logger"] == "http.log.access" && l["traceID"] == trace })
	if access["workspace"] != id || access["client"] != "program" || access["answer"] != "proxy" || access["uuid"] == nil {
		t.Errorf("the access log says %v", access)
	}
	for message, in := range map[string]*installation{
		"workspace desired state changed": serves, "workspace woken: it answers": serves,
		"workspace operation started": leader, "storage job done": leader,
	} {
		logged(t, in, func(l map[string]any) bool {
			return l["msg"] == message && l["workspace"] == id && l["traceID"] == trace && l["uuid"] == access["uuid"]
		})
	}
}

// logged waits for a line of the log.
func logged(t *testing.T, in *installation, is func(map[string]any) bool) (found map[string]any) {
	t.Helper()
	wait.Until(t, "the log has the line", func() bool {
		for text := range strings.Lines(in.log.String()) {
			var l map[string]any
			if json.Unmarshal([]byte(text), &l) == nil && is(l) {
				found = l
				return true
			}
		}
		return false
	})
	return found
}
