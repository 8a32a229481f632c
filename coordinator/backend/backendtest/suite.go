// Package backendtest is the suite that every [backend.Backend] passes, against a
// real engine or cluster.
package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// patience bounds every wait for something that the engine does.
const patience = 30 * time.Second

// Fixture is an engine or cluster with an implementation to test, and what the suite
// needs beside the interface. Everything made is removed at the end of t.
type Fixture interface {
	// New returns a runtime of that installation, whose default image and job image
	// are [Image]. Two of one installation are like two processes.
	New(t *testing.T, installation string) backend.Backend
	// ForeignContainer and ForeignVolume make what the workspace's own would be
	// called, without any label. ForeignContainer takes no volume.
	ForeignContainer(t *testing.T, id workspace.ID)
	ForeignVolume(t *testing.T, id workspace.ID)
	// ContainerExists, VolumeExists and JobCount look at names, whosever they are.
	ContainerExists(t *testing.T, id workspace.ID) bool
	VolumeExists(t *testing.T, id workspace.ID) bool
	JobCount(t *testing.T, id workspace.ID) int
	// MissingImage is a reference that nobody can pull.
	MissingImage() string
}

// Run runs the suite.
func Run(t *testing.T, b Fixture) {
	for name, test := range map[string]func(*testing.T, Fixture){
		"WorkspaceLife":          testWorkspaceLife,
		"StartWithoutVolume":     testStartWithoutVolume,
		"StartReplacesExited":    testStartReplacesExited,
		"StartConcurrently":      testStartConcurrently,
		"ImageMissing":           testImageMissing,
		"DeleteIsQuick":          testDeleteIsQuick,
		"VolumeInUse":            testVolumeInUse,
		"Foreign":                testForeign,
		"TwoInstallations":       testTwoInstallations,
		"SensorsByID":            testSensorsByID,
		"InvalidIDs":             testInvalidIDs,
		"Logs":                   testLogs,
		"Events":                 testEvents,
		"CancelledContext":       testCancelledContext,
		"JobOutcomes":            testJobOutcomes,
		"JobFoundAgain":          testJobFoundAgain,
		"JobRefused":             testJobRefused,
		"JobsConcurrently":       testJobsConcurrently,
		"StartRefusedDuringJob":  testStartRefusedDuringJob,
		"StartAgainstJob":        testStartAgainstJob,
		"EnvironmentStaysSecret": testEnvironmentStaysSecret,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, b)
		})
	}
}

// Installation returns a name that no other test uses.
func Installation() string { return "test-" + uuid.NewString()[:13] }

func newID() workspace.ID { return workspace.ID(uuid.NewString()) }

// Context is t's with an end, so that a call that hangs fails.
func Context(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused wants an error with that reason.
func refused(t *testing.T, err error, reason workspace.ErrorReason) {
	t.Helper()
	if err == nil {
		t.Fatalf("succeeded, want an error with reason %s", reason)
	}
	if got := workspace.ReasonOf(err); got != reason {
		t.Fatalf("reason %s, want %s: %v", got, reason, err)
	}
}

// Eventually waits until ok, looking again and again.
func Eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	limit := time.NewTimer(patience)
	defer limit.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-limit.C:
			t.Fatalf("%s: not within %s", what, patience)
		}
	}
}

// started provisions and starts a workspace and returns its address when it is ready.
func started(t *testing.T, rt backend.Backend, id workspace.ID) string {
	t.Helper()
	ctx := Context(t)
	must(t, rt.Provision(ctx, id))
	must(t, rt.Start(ctx, backend.StartSpec{ID: id}))
	return Ready(t, rt, id)
}

// Ready waits until the workspace is ready and answers, and returns its address.
func Ready(t *testing.T, rt backend.Backend, id workspace.ID) string {
	t.Helper()
	var endpoint string
	Eventually(t, "workspace ready", func() bool {
		c, _ := look(t, rt, id)
		endpoint = c.Endpoint
		return c.Ready
	})
	Eventually(t, "workspace answers", func() bool {
		resp, err := http.Get("http://" + endpoint + "/")
		if err != nil {
			return false
		}
		defer resp.Body.Close()
		body, _ := io.ReadAll(resp.Body)
		return string(body) == "hello"
	})
	return endpoint
}

func look(t *testing.T, rt backend.Backend, id workspace.ID) (workspace.Container, bool) {
	t.Helper()
	all, err := rt.Containers(Context(t), id)
	must(t, err)
	c, ok := all[id]
	return c, ok
}

// request sends one to the test workspace and returns the answer's body.
func request(t *testing.T, method, endpoint, path string, body []byte) string {
	t.Helper()
	req, err := http.NewRequestWithContext(Context(t), method, "http://"+endpoint+path, bytes.NewReader(body))
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return string(text)
}

// leave makes the workspace's main process end with code.
func leave(t *testing.T, endpoint string, code int) {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://%s/exit?code=%d", endpoint, code))
	if err == nil { // the connection usually breaks
		resp.Body.Close()
	}
}

func jobs(t *testing.T, rt backend.Backend, id workspace.ID) []workspace.Job {
	t.Helper()
	all, err := rt.Jobs(Context(t), id)
	must(t, err)
	return all[id]
}

func sameKeys[A, B any](a map[workspace.ID]A, b map[workspace.ID]B) bool {
	for id := range a {
		if _, ok := b[id]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}
