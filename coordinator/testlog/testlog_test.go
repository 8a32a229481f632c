package testlog

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// fails makes TestThatFails fail.
const fails = "CODEHUB_TESTLOG_FAILS"

// TestThatFails logs before and after its error, in the process of [TestTheLogIsInAFile].
func TestThatFails(t *testing.T) {
	New(t).Info("before", zap.Int("n", 1))
	if os.Getenv(fails) != "" {
		t.Error("it fails")
	}
	New(t).Info("after", zap.Int("n", 2))
}

func TestTheLogIsInAFile(t *testing.T) {
	dir := t.TempDir()
	run := func(env ...string) string {
		t.Helper()
		cmd := exec.Command(os.Args[0], "-test.run=^TestThatFails$", "-test.v")
		cmd.Env = append(append(os.Environ(), "TMPDIR="+dir), env...)
		out, err := cmd.CombinedOutput()
		if (err != nil) != (len(env) > 0) {
			t.Fatalf("%v:\n%s", err, out)
		}
		if strings.Contains(string(out), "before") {
			t.Errorf("the log is in the output:\n%s", out)
		}
		return string(out)
	}
	run()
	if kept, err := os.ReadDir(filepath.Join(dir, filepath.Base(Dir))); err != nil || len(kept) != 0 {
		t.Errorf("a test that passes leaves %v, %v", kept, err)
	}
	out := run(fails + "=1")
	named := regexp.MustCompile(`(?s)it fails\n.*the product's log: (\S+)\n`).FindStringSubmatch(out)
	if named == nil {
		t.Fatalf("no file is named after the error:\n%s", out)
	}
	log, err := os.ReadFile(named[1])
	if err != nil {
		t.Fatal(err)
	}
	if !regexp.MustCompile(`(?s)before.*"n": 1.*after.*"n": 2`).Match(log) {
		t.Errorf("the file has\n%s", log)
	}
}

// TestAfterTheTest checks that a goroutine can still log after its test has ended.
func TestAfterTheTest(t *testing.T) {
	var log *zap.Logger
	t.Run("ended", func(t *testing.T) { log = New(t) })
	log.Info("late")
}
