package backend_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

const id = workspace.ID("00000000-0000-4000-8000-000000000001")

func TestOutcome(t *testing.T) {
	const done = `{"event":"progress"}` + "\n" + `{"event":"result","ok":true,"contract":1,"size":7,"error":""}` + "\n"
	failed := func(reason workspace.ErrorReason, message string) workspace.Job {
		return workspace.Job{State: workspace.JobFailed, Reason: reason, Message: message}
	}
	unfit := func(version int, message string) workspace.Job {
		wrong := contract.VersionError{Image: "job:1", Version: version}
		return workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Unfit: true, Message: wrong.Error() + "; it says: " + message}
	}
	for name, c := range map[string]struct {
		code           int
		oom            bool
		stdout, stderr string
		want           workspace.Job
	}{
		"done":     {contract.ExitOK, false, done, "a warning\n", workspace.Job{State: workspace.JobSucceeded, Size: 7}},
		"verified": {contract.ExitOK, false, strings.Replace(done, `"size":7`, `"size":7,"verified":true`, 1), "", workspace.Job{State: workspace.JobSucceeded, Size: 7, Verified: true}},
		"not ok":   {contract.ExitOK, false, `{"event":"result","ok":false,"contract":1,"error":"no"}`, "", failed(workspace.ReasonActionFailed, "no")},
		"a file changed": {contract.ExitOther, false, `{"event":"result","ok":false,"contract":1,"error":"no","changed":"./a"}`, "",
			workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "no", Changed: "./a"}},
		"cut off":              {contract.ExitOK, false, done[:30], "", workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "it ended without a result", ResultLost: true}},
		"text after":           {contract.ExitOK, false, done + "bye\n", "", workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "it ended without a result", ResultLost: true}},
		"the log is not there": {contract.ExitOK, false, "", "unable to retrieve container logs for containerd://1", workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "exit code 0: unable to retrieve container logs for containerd://1", ResultLost: true}},
		"killed":               {137, true, "", "", failed(workspace.ReasonActionFailed, "it ran out of memory")},
		"killed by others":     {137, false, "", "", workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "exit code 137", Disrupted: true}},
		"told to end":          {143, false, "", "", workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "exit code 143", Disrupted: true}},
		"its end is unknown":   {255, false, "", "", workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "exit code 255", Disrupted: true}},
		"panic":                {contract.ExitUsage, false, "", "panic: x\nexit", failed(workspace.ReasonActionFailed, "exit code 2: exit")},
		"corrupted":            {contract.ExitCorrupted, false, "", "", failed(workspace.ReasonArchiveCorrupted, "exit code 10")},
		"missing":              {contract.ExitMissing, false, "", "", failed(workspace.ReasonDataLost, "exit code 11")},
		"unreachable":          {contract.ExitUnreachable, false, "", "", failed(workspace.ReasonUnreachable, "exit code 12")},
		"disk full":            {contract.ExitDiskFull, false, "", "", failed(workspace.ReasonActionFailed, "the disk is full: exit code 13")},
		"occupied":             {contract.ExitOccupied, false, "", "", failed(workspace.ReasonConflict, "exit code 15")},
		"locked":               {contract.ExitLocked, false, "", "", workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Message: "exit code 16", Locked: true}},
		"ok but failing":       {contract.ExitCorrupted, false, done, "", failed(workspace.ReasonArchiveCorrupted, "exit code 10")},
		"an older one did it":  {contract.ExitOK, false, strings.Replace(done, `"contract":1,`, "", 1), "", workspace.Job{State: workspace.JobSucceeded, Size: 7}},
		"an older one":         {contract.ExitCorrupted, false, `{"event":"result","ok":false,"error":"no"}`, "", unfit(0, "no")},
		"a newer one":          {contract.ExitOther, false, `{"event":"result","ok":false,"contract":9,"error":"no"}`, "", unfit(9, "no")},
		"not fit to store":     {contract.ExitOther, false, `{"event":"result","contract":1,"error":"a\u0000b` + "\xff" + `"}`, "", failed(workspace.ReasonActionFailed, "ab\ufffd")},
	} {
		end := backend.JobEnd{Image: "job:1", ExitCode: c.code, OutOfMemory: c.oom, Stdout: []byte(c.stdout), Stderr: []byte(c.stderr)}
		if got := end.Outcome(); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
	long := backend.JobEnd{ExitCode: 1, Stderr: []byte(strings.Repeat("é", 2000))}.Outcome().Message
	if len(long) > 1000 || !strings.HasSuffix(long, "é") {
		t.Errorf("a long message ends up with %d bytes: …%q", len(long), long[len(long)-4:])
	}
}

func TestJobSpec(t *testing.T) {
	archive := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op-1", Env: []string{"A=b", "EMPTY=", "TWO=a=b"}}
	if err := archive.Validate(); err != nil {
		t.Error(err)
	}
	if got, want := archive.Name(), "ws-"+string(id)+"-archive-op-1"; got != want {
		t.Errorf("name %s, want %s", got, want)
	}
	restore := backend.JobSpec{ID: id, Kind: workspace.JobRestore, OpID: "op-1"}
	if archive.Command() != contract.JobArchive || restore.Command() != contract.JobRestore {
		t.Errorf("commands %q and %q", archive.Command(), restore.Command())
	}
	if archive.Name() == restore.Name() {
		t.Error("two kinds of job share a name")
	}

	const secret = "s3cr3t"
	for name, change := range map[string]func(*backend.JobSpec){
		"kind":        func(s *backend.JobSpec) { s.Kind = "format" },
		"no kind":     func(s *backend.JobSpec) { s.Kind = "" },
		"no op id":    func(s *backend.JobSpec) { s.OpID = "" },
		"op id":       func(s *backend.JobSpec) { s.OpID = "../x" },
		"long op id":  func(s *backend.JobSpec) { s.OpID = strings.Repeat("a", 65) },
		"no name":     func(s *backend.JobSpec) { s.Env = []string{"=" + secret} },
		"no value":    func(s *backend.JobSpec) { s.Env = []string{secret} },
		"NUL":         func(s *backend.JobSpec) { s.Env = []string{"A=" + secret + "\x00"} },
		"empty entry": func(s *backend.JobSpec) { s.Env = []string{""} },
	} {
		s := archive
		change(&s)
		if err := s.Validate(); err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (backend.JobSpec{ID: "x", Kind: workspace.JobArchive, OpID: "op"}).Validate(); !errors.Is(err, workspace.ErrInvalidID) {
		t.Errorf("invalid id: %v", err)
	}
}

func TestProgressOf(t *testing.T) {
	line := func(bytes int, more string) string {
		return fmt.Sprintf(`{"event":"progress","step":"archive","bytes":%d%s}`, bytes, more) + "\n"
	}
	bare := func(bytes int) string { return backend.ProgressOf([]byte(line(bytes, ""))) }
	if !strings.Contains(bare(3), `"bytes":3`) {
		t.Fatalf("progress %q", bare(3))
	}
	for name, c := range map[string]struct{ output, want string }{
		"the newest":                {line(1, "") + line(2, ""), bare(2)},
		"time is no progress":       {line(2, `,"seconds":17.5,"bytes_per_second":9,"eta":3`), bare(2)},
		"other output after it":     {line(2, "") + "a warning\n\n", bare(2)},
		"a line that is cut off":    {line(2, "") + line(3, "")[:20], bare(2)},
		"a tail that begins inside": {line(1, "")[9:] + line(2, ""), bare(2)},
		"a field of a new release":  {line(2, `,"new":{"a":1}`), bare(2)},
		"a result is no progress":   {`{"event":"result","ok":true}`, ""},
		"text":                      {"hello\nhello\nhello\n", ""},
		"blank":                     {" \n\n ", ""},
		"nothing":                   {"", ""},
	} {
		if got := backend.ProgressOf([]byte(c.output)); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	for change, more := range map[string]string{"files": `,"files":1`, "transferred": `,"transferred":1`, "total": `,"total":1`} {
		if backend.ProgressOf([]byte(line(2, more))) == bare(2) {
			t.Errorf("%s do not count as progress", change)
		}
	}
}
