package planner_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/coordinator/workspace/planner"
)

// TestTheFirstAnswerEndsTheStart: an application that has answered is ready, regardless of the image's health
// check.
func TestTheFirstAnswerEndsTheStart(t *testing.T) {
	for name, c := range map[string]struct {
		health   workspace.Health
		pending  *workspace.Pending
		endpoint string
		answer   *workspace.Readiness
		ready    bool
	}{
		"it has answered":           {workspace.HealthStarting, nil, "10.0.0.2:80", &workspace.Readiness{Answered: true}, true},
		"its health check fails":    {workspace.HealthUnhealthy, nil, "10.0.0.2:80", &workspace.Readiness{Answered: true}, true},
		"it has answered elsewhere": {workspace.HealthStarting, nil, "10.0.0.2:80", &workspace.Readiness{Instead: 81}, true},
		"it has not":                {workspace.HealthStarting, nil, "10.0.0.2:80", &workspace.Readiness{}, false},
		"it is silent":              {workspace.HealthStarting, nil, "10.0.0.2:80", &workspace.Readiness{Silence: &workspace.Silence{Port: 80}}, false},
		"it was not asked":          {workspace.HealthStarting, nil, "10.0.0.2:80", nil, false},
		"it is paused":              {workspace.HealthPaused, nil, "10.0.0.2:80", &workspace.Readiness{Answered: true}, false},
		"it has no address":         {workspace.HealthStarting, nil, "", &workspace.Readiness{Answered: true}, false},
		"its node does not report":  {workspace.HealthStarting, nodeLost, "10.0.0.2:80", &workspace.Readiness{Answered: true}, false},
	} {
		w, o := during(workspace.OpStarting, workspace.DesiredRunning)
		o.Container = &workspace.Container{Running: true, Volume: true, Health: c.health, Pending: c.pending, Endpoint: c.endpoint, StartedAt: now}
		o.Readiness = c.answer
		n := planner.Reconcile(now, w, o, false, policy()).Next
		if (n.Phase == workspace.PhaseRunning) != c.ready || (n.Operation == workspace.OpNone) != c.ready || (n.Endpoint != "") != c.ready {
			t.Errorf("%s: %s %s at %q", name, n.Phase, n.Operation, n.Endpoint)
		}
		if o.Container.Ready || o.Container.Health != c.health {
			t.Errorf("%s: what was observed has been changed", name)
		}
		// A former answer does not make a running container ready.
		if c.health == workspace.HealthUnhealthy {
			n = planner.Reconcile(now, n, o, false, policy()).Next
			if n.Phase != workspace.PhaseRunning || n.Conditions.True(workspace.ContainerReady) || waits(n) != workspace.WaitUnhealthy {
				t.Errorf("%s: %s, waits for %q", name, n.Phase, waits(n))
			}
		}
	}
}

// TestAContainerIsHeldBack: a container that its backend must check is started again, which is no failure. Meanwhile
// nobody uses it. A container that people may be using already, such as that of an older leader, is left alone.
func TestAContainerIsHeldBack(t *testing.T) {
	unseen := *running
	unseen.StartAgain = true
	silent := unseen
	silent.Ready, silent.Health = false, workspace.HealthStarting
	for name, k := range map[string]workspace.Container{"ready": unseen, "with a health check": silent} {
		w, o := during(workspace.OpStarting, workspace.DesiredRunning)
		o.Container, o.Readiness = &k, &workspace.Readiness{Answered: true}
		d := planner.Reconcile(now, w, o, false, policy())
		if n := d.Next; d.Action != planner.ActStart || n.Operation != workspace.OpStarting || n.Phase != workspace.PhaseStandby || n.Endpoint != "" || n.Waiting != nil || n.ErrorCount != 0 {
			t.Errorf("%s: %s, %s %s at %q, %d errors", name, d.Action, n.Phase, n.Operation, n.Endpoint, n.ErrorCount)
		}
		if d := planner.Reconcile(now, w, o, true, policy()); d.Action != planner.ActNothing {
			t.Errorf("%s, before a retry is due: %s", name, d.Action)
		}
		w, _ = at(workspace.PhaseStandby)
		w.DesiredState, w.HomeCtx.VolumeOpID, o.Readiness = workspace.DesiredRunning, o.Volume.OpID, nil
		if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActStart || d.Next.Operation != workspace.OpStarting {
			t.Errorf("%s, without an operation: %s, %s", name, d.Action, d.Next.Operation)
		}
		w.DesiredState = workspace.DesiredStandby
		if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActDeleteContainer {
			t.Errorf("%s, when it is to sleep: %s", name, d.Action)
		}
	}
	w, o := at(workspace.PhaseRunning)
	o.Container = &unseen
	if d := planner.Reconcile(now, w, o, false, policy()); d.Action != planner.ActNothing || d.Next.Phase != workspace.PhaseRunning || d.Next.Endpoint != running.Endpoint || !d.Next.Conditions.True(workspace.ContainerReady) {
		t.Errorf("in use: %s, %s at %q", d.Action, d.Next.Phase, d.Next.Endpoint)
	}
}

// TestAnErrorOfTheStartEndsWithTheAnswer: the answer has the effect of the container's readiness.
func TestAnErrorOfTheStartEndsWithTheAnswer(t *testing.T) {
	w, o := at(workspace.PhaseError)
	k := *running
	k.Ready, k.Health = false, workspace.HealthStarting
	o.Container, o.Readiness = &k, &workspace.Readiness{Answered: true}
	if n := planner.Reconcile(now, w, o, false, policy()).Next; n.Phase != workspace.PhaseRunning || n.ErrorReason != "" {
		t.Errorf("%s %s", n.Phase, n.ErrorReason)
	}
}

// TestTheFoundPortIsUsed only for the container in which the port was found.
func TestTheFoundPortIsUsed(t *testing.T) {
	w, o := at(workspace.PhaseRunning)
	o.Image, o.Port, o.Readiness = "test/image:1", 0, &workspace.Readiness{Instead: 8888}
	n := planner.Reconcile(now, w, o, false, policy()).Next
	want := workspace.FoundPort{Port: 8888, Started: running.StartedAt, Image: "test/image:1"}
	if n.Endpoint != "172.18.0.2:8888" || n.HomeCtx.Found != want {
		t.Fatalf("%q, found %+v", n.Endpoint, n.HomeCtx.Found)
	}
	o.Readiness = nil // another leader
	if next := planner.Reconcile(now, n, o, false, policy()).Next; next.Endpoint != "172.18.0.2:8888" || !reflect.DeepEqual(next.HomeCtx, n.HomeCtx) {
		t.Errorf("%q, found %+v", next.Endpoint, next.HomeCtx.Found)
	}
	// The port remains in use. A found port is valid for the image and port that the container was started with.
	o.Readiness, o.Image = &workspace.Readiness{Instead: 8888}, "test/image:2"
	if next := planner.Reconcile(now, n, o, false, policy()).Next; next.Endpoint != "172.18.0.2:8888" || next.HomeCtx.Found != want {
		t.Errorf("%q, found %+v", next.Endpoint, next.HomeCtx.Found)
	}
	// The configured port is the right one as soon as it answers.
	o.Readiness = &workspace.Readiness{Answered: true}
	if next := planner.Reconcile(now, n, o, false, policy()).Next; next.Endpoint != "172.18.0.2:8080" || next.HomeCtx.Found.Port != 0 {
		t.Errorf("%q, found %+v", next.Endpoint, next.HomeCtx.Found)
	}
	o.Readiness = nil
	k := *running
	k.StartedAt = k.StartedAt.Add(time.Second)
	o.Container = &k
	if next := planner.Reconcile(now, n, o, false, policy()).Next; next.Endpoint != "172.18.0.2:8080" || next.HomeCtx.Found != want {
		t.Errorf("the next container: %q, found %+v", next.Endpoint, next.HomeCtx.Found)
	}
	// The next container, which does not answer there, stops using it.
	o.Readiness = &workspace.Readiness{Silence: &workspace.Silence{Port: 8888}}
	if next := planner.Reconcile(now, n, o, false, policy()).Next; next.HomeCtx.Found.Port != 0 {
		t.Errorf("found %+v", next.HomeCtx.Found)
	}
	for _, c := range []struct {
		container  workspace.Container
		image      string
		configured int
		want       int
	}{{k, "test/image:1", 0, 8888}, {k, "test/image:2", 0, 0}, {k, "test/image:1", 9000, 0}, {*running, "test/image:2", 9000, 8888}} {
		if got := want.Known(c.container, c.image, c.configured); got != c.want {
			t.Errorf("in a container of %s at %d, %d is tried", c.image, c.configured, got)
		}
	}
	if got := (workspace.FoundPort{}).Known(workspace.Container{}, "", 0); got != 0 {
		t.Errorf("nothing was found, and %d is tried", got)
	}
}

// TestWhatListensIsTold: while the workspace runs and does not answer, it shows which ports listen.
func TestWhatListensIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		silence workspace.Silence
		says    string
	}{
		"elsewhere": {workspace.Silence{Port: 8080, Ports: []int{22, 8888}}, "nothing listens on port 8080 of the container; what listens is 22, 8888"},
		"mute":      {workspace.Silence{Port: 8080, Ports: []int{22, 8080}}, "something listens on port 8080"},
		"local":     {workspace.Silence{Port: 8080, Local: []int{8080}}, "on its loopback address alone listens 8080"},
		"nothing":   {workspace.Silence{Port: 8080}, "nothing answers on port 8080"},
	} {
		w, o := at(workspace.PhaseRunning)
		o.Readiness = &workspace.Readiness{Silence: &c.silence}
		n := planner.Reconcile(now, w, o, false, policy()).Next
		if n.Phase != workspace.PhaseRunning || n.Operation != workspace.OpNone || waits(n) != workspace.WaitNotAnswering ||
			!strings.Contains(n.Waiting.Message, c.says) || n.Waiting.Port != 8080 || !reflect.DeepEqual(n.Waiting.Ports, c.silence.Ports) ||
			!reflect.DeepEqual(n.Waiting.LocalPorts, c.silence.Local) || n.Endpoint == "" {
			t.Errorf("%s: %s %+v", name, n.Phase, n.Waiting)
		}
		later := now.Add(time.Minute)
		for what, r := range map[string]*workspace.Readiness{"it answers": {Answered: true}, "it is not probed": nil, "it is looked for": {}} {
			o.Readiness = r
			next := planner.Reconcile(later, n, o, false, policy()).Next
			if kept := next.Waiting != nil; kept != (what == "it is looked for") || kept && !next.Waiting.Since.Equal(now) {
				t.Errorf("%s, %s: %+v", name, what, next.Waiting)
			}
		}
		// While it is frozen nothing is known.
		frozen := *running
		frozen.Ready, frozen.Health = false, workspace.HealthPaused
		o.Readiness, o.Container, n.DozeAt = nil, &frozen, now
		if next := planner.Reconcile(later, n, o, false, policy()).Next; waits(next) != workspace.WaitNotAnswering {
			t.Errorf("%s, it dozes: %+v", name, next.Waiting)
		}
		n.DesiredState, n.DozeAt = workspace.DesiredStandby, time.Time{}
		if d := planner.Reconcile(later, n, o, false, policy()); d.Action != planner.ActDeleteContainer {
			t.Errorf("%s, put to sleep: %q", name, d.Action)
		}
	}
}
