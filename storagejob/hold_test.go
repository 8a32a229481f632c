package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/codehub/gateway/storagejob/contract"
)

// TestInstall: the copy equals this program, and every user can run it. A second installation replaces the first.
func TestInstall(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	for range 2 {
		var stderr bytes.Buffer
		if code := run(t.Context(), []string{"install", folder}, os.Getenv, io.Discard, &stderr, nil); code != contract.ExitOK {
			t.Fatalf("it ends with %d: %s", code, &stderr)
		}
		program := filepath.Join(folder, "storagejob")
		if info, err := os.Stat(program); err != nil || info.Mode().Perm() != 0o755 {
			t.Fatalf("%v, %v", info, err)
		}
		if got, err := os.ReadFile(program); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("%v: %d bytes, want %d", err, len(got), len(want))
		}
		if left, err := os.ReadDir(folder); err != nil || len(left) != 1 {
			t.Errorf("in the folder: %v, %v", left, err)
		}
	}
}

func TestInstallSaysWhatIsWrong(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{nil, contract.ExitUsage, "one folder"},
		{[]string{"a", "b"}, contract.ExitUsage, "one folder"},
		{[]string{filepath.Join(t.TempDir(), "missing")}, contract.ExitOther, "missing"},
	} {
		var stderr bytes.Buffer
		if code := install(c.args, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%q ends with %d: %s", c.args, code, &stderr)
		}
	}
}

// TestHold: hold waits until a signal cancels its context.
func TestHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		code := make(chan int, 1)
		go func() { code <- run(ctx, []string{"hold"}, os.Getenv, io.Discard, io.Discard, nil) }()
		synctest.Wait()
		if len(code) > 0 {
			t.Fatal("it does not wait")
		}
		cancel()
		if got := <-code; got != contract.ExitOK {
			t.Errorf("it ends with %d", got)
		}
	})
}
