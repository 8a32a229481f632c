package docker_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/doctor"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// waitsFor returns what an actuator waits for: the reason of the wait, "image" if an image must be pulled, "" after
// success, and otherwise the error.
func waitsFor(err error) string {
	var missing *backend.MissingImageError
	var pending *workspace.PendingError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &missing) && missing.Jobs:
		return "image"
	case errors.As(err, &pending):
		return pending.Pending.Reason
	}
	return err.Error()
}

// hostNetwork makes answer handle the requests to create a container in the network of the engine's host.
func (e *engine) hostNetwork(answer func(r *http.Request, body []byte) *http.Response) (end func()) {
	return e.faults.add(func(r *http.Request) (*http.Response, error) {
		if !strings.HasSuffix(r.URL.Path, "/containers/create") {
			return nil, nil
		}
		body, err := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		if err != nil || !bytes.Contains(body, []byte(`"NetworkMode":"host"`)) {
			return nil, err
		}
		return answer(r, body), nil
	})
}

// unable lists the ways in which an engine reports that it does not support the rules. The second one is the kernel's
// own message.
var unable = map[string]func(r *http.Request, body []byte) *http.Response{
	"a plugin forbids it": func(r *http.Request, _ []byte) *http.Response {
		return &http.Response{StatusCode: http.StatusForbidden, Status: "403 Forbidden", Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: r,
			Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(`{"message":"authorization denied by plugin"}`))}
	},
	"without the right": func(r *http.Request, body []byte) *http.Response {
		body = bytes.Replace(body, []byte(`"CapAdd":["CAP_NET_ADMIN"]`), []byte(`"CapAdd":null`), 1)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		return nil
	},
}

// TestNothingStartsBeforeTheRulesStand: there is only one exception. With the setting auto, workspaces start on an
// engine that itself reports that it does not support the rules.
func TestNothingStartsBeforeTheRulesStand(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		image         func(e *engine) string
		auto, require string // what a start waits for
		says          string
	}{
		"the image is missing":      {(*engine).nowhere, "image", "image", "codehub/nowhere:1"},
		"another program's image":   {func(*engine) string { return devenv.TerminalImage(t) }, workspace.WaitJobImage, workspace.WaitJobImage, contract.DefaultImage},
		"a program that is broken":  {func(e *engine) string { return e.image }, workspace.WaitEgressRules, workspace.WaitEgressRules, "printed no result"},
		"a plugin forbids it":       {func(*engine) string { return devenv.StorageJobImage(t) }, "", workspace.WaitEgressRules, `"egress enforce" is require`},
		"without the right":         {func(*engine) string { return devenv.StorageJobImage(t) }, "", workspace.WaitEgressRules, "administer its host's network"},
		"an engine that has it all": {func(*engine) string { return devenv.StorageJobImage(t) }, "", "", ""},
	} {
		for enforce, want := range map[string]string{egress.EnforceAuto: c.auto, egress.EnforceRequire: c.require} {
			e := newEngine(t)
			image, installation, id := c.image(e), backendtest.Installation(), newID()
			e.change = func(o *docker.Options) { o.JobImage, o.Egress.Enforce = image, enforce }
			b := e.New(t, installation)
			if name == "an engine that has it all" {
				e.forgetRules(t, installation)
			}
			end := func() {}
			if answer := unable[name]; answer != nil {
				end = e.hostNetwork(answer)
			}
			must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
			err := b.Start(t.Context(), backend.StartSpec{ID: id})
			if got := waitsFor(err); got != want || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s, %s: waits for %q: %v", name, enforce, got, err)
			}
			if e.ContainerExists(t, id) != (want == "") {
				t.Errorf("%s, %s: the container exists: %v", name, enforce, want != "")
			}
			_, err = b.KeepIsolated(t.Context())
			var open *egress.UnableError
			if isOpen := errors.As(err, &open); isOpen != (unable[name] != nil && enforce == egress.EnforceAuto) || (err == nil) != (name == "an engine that has it all") {
				t.Errorf("%s, %s: what is told of the rules: %v", name, enforce, err)
			}
			end()
		}
	}
}

// nowhere is an image that no engine has.
func (*engine) nowhere() string { return "codehub/nowhere:1" }

// TestAutoDecidesOnce: if the rules were ever in force, no workspace starts without them. This holds in other
// processes, too, and after the image was lost. An engine that did not support the rules gets them as soon as it does.
func TestAutoDecidesOnce(t *testing.T) {
	t.Parallel()
	for name, answer := range unable {
		e := egressEngine(t, egress.Options{Enforce: egress.EnforceAuto})
		installation, id := backendtest.Installation(), newID()
		b := e.New(t, installation)
		e.forgetRules(t, installation)
		d, err := doctor.New(e.options(installation))
		must(t, err)
		t.Cleanup(func() { d.Close() })
		decided := func(want bool) {
			t.Helper()
			if found, err := d.Egress(t.Context()); err != nil || found.Decided != want {
				t.Errorf("%s: the doctor finds %+v, %v", name, found, err)
			}
		}
		must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
		end := e.hostNetwork(answer)
		must(t, b.Start(t.Context(), backend.StartSpec{ID: id}))
		decided(false)
		end()
		if stood, err := b.KeepIsolated(t.Context()); err != nil || stood {
			t.Errorf("%s: when it can have the rules, they stood: %v, %v", name, stood, err)
		}
		decided(true)
		must(t, b.Delete(t.Context(), id))
		must(t, b.Start(t.Context(), backend.StartSpec{ID: id})) // known
		must(t, b.Delete(t.Context(), id))
		defer e.hostNetwork(answer)()
		decided(true)
		next := e.New(t, installation) // a new process that knows nothing yet
		if err := next.Start(t.Context(), backend.StartSpec{ID: id}); waitsFor(err) != workspace.WaitEgressRules || !strings.Contains(err.Error(), "stood on this engine before") {
			t.Errorf("%s: then %v", name, err)
		}
		if e.ContainerExists(t, id) {
			t.Errorf("%s: it runs without rules", name)
		}
		var open *egress.UnableError
		if _, err := next.KeepIsolated(t.Context()); err == nil || errors.As(err, &open) {
			t.Errorf("%s: what is told of the rules: %v", name, err)
		}
		if left, err := next.Objects(t.Context()); err != nil || slices.ContainsFunc(left, func(o backend.Object) bool { return o.Workspace == "" }) {
			t.Errorf("%s: the decision counts as a leftover: %+v, %v", name, left, err)
		}
	}
}

// TestJobsOfAnotherReleaseAreRefusedByName: such jobs are refused before any of their objects exist.
func TestJobsOfAnotherReleaseAreRefusedByName(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	image := devenv.TerminalImage(t)
	e.change = func(o *docker.Options) { o.JobImage = image }
	b, id := e.New(t, backendtest.Installation()), newID()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	err := b.StartJob(t.Context(), backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op"})
	if waitsFor(err) != workspace.WaitJobImage || !strings.Contains(err.Error(), image) || !strings.Contains(err.Error(), "set job_image to "+contract.DefaultImage) {
		t.Errorf("%v", err)
	}
	if jobs, err := b.Jobs(t.Context(), id); err != nil || len(jobs) != 0 {
		t.Errorf("jobs %+v, %v", jobs, err)
	}
}
