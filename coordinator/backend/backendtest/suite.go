// Package backendtest is the conformance suite of [backend.Backend]: it tests the requirements of each implementation
// against a real engine or cluster.
//
// It owns the tests, and the program in testworkspace that they run in containers. It must not know which
// implementation it tests. The features of a backend are those in [backend.Backend], and [Fixture] prepares its engine.
package backendtest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Fixture is an engine or cluster with an implementation to test. Everything that its methods create is removed at the
// end of t.
type Fixture interface {
	// New returns a backend of that installation, with addresses that can be chosen if the implementation supports
	// that. Its default image and job image run the program in testworkspace. Two backends of one installation behave
	// like two processes.
	New(t *testing.T, installation string) backend.Backend
	// UnlabeledContainer and UnlabeledVolume create an object that has the name of the workspace's own object, but no
	// labels. The container mounts no volume.
	UnlabeledContainer(t *testing.T, id workspace.ID)
	UnlabeledVolume(t *testing.T, id workspace.ID)
	// ContainerExists, VolumeExists and JobCount search by name, not by label.
	ContainerExists(t *testing.T, id workspace.ID) bool
	VolumeExists(t *testing.T, id workspace.ID) bool
	JobCount(t *testing.T, id workspace.ID) int
	// JobName is the engine's name of that job.
	JobName(s backend.JobSpec) string
	// LegacyVolume creates the home volume as earlier releases did, without the label of the operation.
	LegacyVolume(t *testing.T, installation string, id workspace.ID)
	// MissingImage is a reference that cannot be pulled. PullableImage is an image of a workspace that is absent and
	// can be pulled; it is used only if the backend has Images. SickImage is an image of a workspace, with a health check
	// that fails; it is empty if the engine does not run the health checks of images.
	MissingImage(t *testing.T) string
	PullableImage(t *testing.T) string
	SickImage(t *testing.T) string
	// ShellImage is an image with the suite's program and a shell. It is empty if the default image has a shell, or if
	// there are no images.
	ShellImage(t *testing.T) string
	// Pause pauses the workspace's container, as an administrator would. It reports false if the engine cannot pause.
	Pause(t *testing.T, id workspace.ID) bool
	// Break makes the engine fail until repair is called, but only for requests about that workspace's ended container
	// or its jobs. ends is false if listings include how a container ended, so that only the jobs are affected.
	Break(t *testing.T, id workspace.ID) (ends bool, repair func())
	// Hold returns a backend whose requests to delete a volume are held back on their way to the engine. The channel held
	// receives a value for each of these requests, and release forwards them all.
	Hold(t *testing.T, installation string) (b backend.Backend, held <-chan struct{}, release func())
	// JobReport is everything that the engine's API shows about the workspace's jobs: their description, environment,
	// labels and output.
	JobReport(t *testing.T, id workspace.ID) string
	// Terms returns the terms in the labels of the workspace's container and jobs.
	Terms(t *testing.T, id workspace.ID) []string
	// Owners returns the owners in the labels of the workspace's objects, by kind of object: "workspace" (the
	// container), "home" (the volume) and "job".
	Owners(t *testing.T, id workspace.ID) map[string]string
}

// tests are the tests of the suite.
var tests = map[string]func(*testing.T, Fixture){
	"WorkspaceLife":          testWorkspaceLife,
	"Addresses":              testAddresses,
	"StartWithoutVolume":     testStartWithoutVolume,
	"StartReplacesExited":    testStartReplacesExited,
	"StartAsSpecified":       testStartAsSpecified,
	"StartConcurrently":      testStartConcurrently,
	"ImageMissing":           testImageMissing,
	"DeleteIsQuick":          testDeleteIsQuick,
	"ImagePulled":            testImagePulled,
	"Unhealthy":              testUnhealthy,
	"Paused":                 testPaused,
	"PauseEvents":            testPauseEvents,
	"Frozen":                 testFrozen,
	"OneObjectUnknown":       testOneObjectUnknown,
	"JobProgress":            testJobProgress,
	"Terms":                  testTerms,
	"Owners":                 testOwners,
	"OwnerAfterUpgrade":      testOwnerAfterUpgrade,
	"Identity":               testIdentity,
	"ProvisionConflict":      testProvisionConflict,
	"DeleteVolumeOfOther":    testDeleteVolumeOfOther,
	"LegacyVolume":           testLegacyVolume,
	"LateDelete":             testLateDelete,
	"DeletesAtOnce":          testDeletesAtOnce,
	"Objects":                testObjects,
	"RemoveKeepsSuccessor":   testRemoveKeepsSuccessor,
	"RemoveOfOthers":         testRemoveOfOthers,
	"VolumeInUse":            testVolumeInUse,
	"UnlabeledObjects":       testUnlabeledObjects,
	"TwoInstallations":       testTwoInstallations,
	"SensorsByID":            testSensorsByID,
	"InvalidIDs":             testInvalidIDs,
	"Usage":                  testUsage,
	"Disk":                   testDisk,
	"Memory":                 testMemory,
	"Logs":                   testLogs,
	"Follow":                 testFollow,
	"Stats":                  testStats,
	"Ports":                  testPorts,
	"Look":                   testLook,
	"Exec":                   testExec,
	"ExecInput":              testExecInput,
	"Terminal":               testTerminal,
	"Events":                 testEvents,
	"CancelledContext":       testCancelledContext,
	"JobOutcomes":            testJobOutcomes,
	"NewLeaderFindsJob":      testNewLeaderFindsJob,
	"JobRefused":             testJobRefused,
	"JobsConcurrently":       testJobsConcurrently,
	"StartRefusedDuringJob":  testStartRefusedDuringJob,
	"StartAgainstJob":        testStartAgainstJob,
	"EnvironmentStaysSecret": testEnvironmentStaysSecret,
	"Grant":                  testGrant,
}

// Run runs the suite.
func Run(t *testing.T, f Fixture) { run(t, f, slices.Sorted(maps.Keys(tests))) }

// RunThird runs a random third of the suite, or all of it with [seed.All]. It is meant for implementations that can run
// containers in an additional way.
func RunThird(t *testing.T, f Fixture) {
	run(t, f, seed.Third(t, slices.Sorted(maps.Keys(tests))))
}

func run(t *testing.T, f Fixture, names []string) {
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tests[name](t, f)
		})
	}
}

// Installation returns the name of an installation that no other test uses.
func Installation() string { return devenv.Installation("test") }

func newID() workspace.ID { return workspace.ID(uuid.NewString()) }

// Context returns t's context with a deadline, so that a call that hangs fails.
func Context(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused fails the test unless err has that reason.
func refused(t *testing.T, err error, reason workspace.ErrorReason) {
	t.Helper()
	if err == nil {
		t.Fatalf("succeeded, want an error with reason %s", reason)
	}
	if got := workspace.ReasonOf(err); got != reason {
		t.Fatalf("reason %s, want %s: %v", got, reason, err)
	}
}

// started provisions and starts a workspace, and returns its address when it is ready.
func started(t *testing.T, b backend.Backend, id workspace.ID) string {
	t.Helper()
	ctx := Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	return Ready(t, b, id)
}

// Ready waits until the workspace is ready and answers, and returns its address.
func Ready(t testing.TB, b backend.Backend, id workspace.ID) string {
	t.Helper()
	var endpoint string
	wait.Until(t, "workspace ready", func() bool {
		c, _ := containerOf(t, b, id)
		endpoint = c.Endpoint
		return c.Ready
	})
	wait.Until(t, "workspace answers", func() bool {
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

// containerOf returns the workspace's container as the backend lists it.
func containerOf(t testing.TB, b backend.Backend, id workspace.ID) (workspace.Container, bool) {
	t.Helper()
	all, err := b.Containers(Context(t), id)
	must(t, err)
	c, ok := all[id]
	return c, ok
}

// request sends a request to the test workspace and returns the body of the response.
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

// exitWith ends the workspace's main process with code.
func exitWith(t *testing.T, endpoint string, code int) {
	t.Helper()
	resp, err := http.Get(fmt.Sprintf("http://%s/exit?code=%d", endpoint, code))
	if err == nil { // the connection usually breaks
		resp.Body.Close()
	}
}

func jobs(t *testing.T, b backend.Backend, id workspace.ID) []workspace.Job {
	t.Helper()
	all, err := b.Jobs(Context(t), id)
	must(t, err)
	return begun(all[id])
}

// begun returns the jobs without what they still wait for, because it depends on the engine whether a started job
// already runs.
func begun(all []workspace.Job) []workspace.Job {
	for i := range all {
		all[i].Pending = nil
	}
	return all
}

func sameKeys[A, B any](a map[workspace.ID]A, b map[workspace.ID]B) bool {
	for id := range a {
		if _, ok := b[id]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}
