package docker

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestValidateReportsEverything(t *testing.T) {
	err := Options{Installation: "Not Good", Host: "nowhere", Image: "A B", Port: 70000, Network: "host", JobNetwork: "none",
		Publish: "world", MemoryBytes: 1, PidsLimit: -1}.Validate()
	if err == nil {
		t.Fatal("nothing was wrong")
	}
	for _, setting := range []string{"installation", "host", "workspace image", "workspace port", "network", "job network", "publish", "memory", "pids"} {
		if !strings.Contains(err.Error(), "docker "+setting+":") && !strings.Contains(err.Error(), "docker "+setting+" and") {
			t.Errorf("%q is not named in:\n%v", setting, err)
		}
	}
	for _, o := range []Options{
		{Installation: "codehub", Image: "codercom/code-server:4.139.1"},
		{Installation: "a", Host: "tcp://10.0.0.1:2375", Image: "x", JobNetwork: "host", Publish: PublishLoopback, Network: "mine"},
	} {
		if err := o.Validate(); err != nil {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestJudgeJob(t *testing.T) {
	const done = `{"event":"progress"}` + "\n" + `{"event":"result","ok":true,"size":7,"error":""}` + "\n"
	for name, c := range map[string]struct {
		code           int
		oom            bool
		stdout, stderr string
		want           outcome
	}{
		"done":           {0, false, done, "a warning\n", outcome{state: workspace.JobSucceeded, size: 7}},
		"not ok":         {0, false, `{"event":"result","ok":false,"error":"no"}`, "", outcome{workspace.JobFailed, workspace.ReasonActionFailed, "no", 0}},
		"cut off":        {0, false, done[:30], "", outcome{workspace.JobFailed, workspace.ReasonActionFailed, "it ended without a result", 0}},
		"killed":         {137, true, "", "", outcome{workspace.JobFailed, workspace.ReasonActionFailed, "it ran out of memory", 0}},
		"panic":          {2, false, "", "panic: x\nexit", outcome{workspace.JobFailed, workspace.ReasonActionFailed, "exit code 2: exit", 0}},
		"ok but failing": {10, false, done, "", outcome{workspace.JobFailed, workspace.ReasonArchiveCorrupted, "exit code 10", 0}},
		"no text":        {1, false, `{"event":"result","error":"a\u0000b` + "\xff" + `"}`, "", outcome{workspace.JobFailed, workspace.ReasonActionFailed, "ab\ufffd", 0}},
	} {
		if got := judgeJob(c.code, c.oom, []byte(c.stdout), []byte(c.stderr)); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	if o := judgeJob(1, false, nil, []byte(strings.Repeat("é", 2000))); len(o.message) > jobMessageMax || !strings.HasSuffix(o.message, "é") {
		t.Errorf("a long message ends up with %d bytes: …%q", len(o.message), o.message[len(o.message)-4:])
	}
}

func TestStarting(t *testing.T) {
	for status, want := range map[string]bool{
		"Up 3 seconds": false, "Up 3 seconds (healthy)": false, "Up 3 seconds (unhealthy)": true, "Up Less than a second (health: starting)": true,
	} {
		if got := starting(status); got != want {
			t.Errorf("%q: %t, want %t", status, got, want)
		}
	}
}

func TestMemoKeepsWhatIsSeen(t *testing.T) {
	var m memo[int]
	m.put("a", 1)
	m.put("b", 2)
	m.keep(map[string]struct{}{"b": {}, "c": {}})
	if _, ok := m.get("a"); ok {
		t.Error("a is remembered although it was not seen")
	}
	if v, ok := m.get("b"); !ok || v != 2 {
		t.Errorf("b is %d, %t", v, ok)
	}
}
