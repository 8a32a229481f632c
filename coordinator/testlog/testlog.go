// Package testlog keeps the product's log out of the output of tests. Each test that logs has its own file below [Dir].
// A test that fails prints the path of its file at its end. The files of tests that pass are deleted.
//
// Only tests may import it.
package testlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// Dir is the folder of the files. It is outside the repository, because the go command does not reuse the result of a
// test if a file that the test read in the repository has changed.
var Dir = filepath.Join(os.TempDir(), fmt.Sprintf("codehub-test-logs-%d", os.Getuid()))

// files has the file of each running test.
var (
	mu    sync.Mutex
	files = make(map[testing.TB]*file)
)

// New returns a logger that logs everything from the debug level up.
func New(t testing.TB, options ...zap.Option) *zap.Logger {
	t.Helper()
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig()), zapcore.AddSync(Writer(t)), zap.DebugLevel)
	return zap.New(core, append([]zap.Option{zap.ErrorOutput(zapcore.AddSync(broken{t}))}, options...)...)
}

// Writer returns the test's file. It is safe for concurrent use, and discards output after the end of the test.
func Writer(t testing.TB) io.Writer {
	t.Helper()
	mu.Lock()
	defer mu.Unlock()
	if f := files[t]; f != nil {
		return f
	}
	if err := os.MkdirAll(Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	kept, err := os.CreateTemp(Dir, strings.ReplaceAll(t.Name(), "/", "_")+"-*.log")
	if err != nil {
		t.Fatal(err)
	}
	f := &file{kept: kept}
	files[t] = f
	t.Cleanup(func() {
		mu.Lock()
		delete(files, t)
		mu.Unlock()
		if err := f.close(t.Failed()); err != nil {
			t.Errorf("closing the test's log: %v", err)
		}
		if t.Failed() {
			t.Logf("the product's log: %s", kept.Name())
		}
	})
	return f
}

// file is the log of one test.
type file struct {
	mu   sync.Mutex
	kept *os.File // nil once the test has ended
}

func (f *file) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.kept == nil {
		return len(p), nil
	}
	return f.kept.Write(p)
}

func (f *file) close(keep bool) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	name, err := f.kept.Name(), f.kept.Close()
	f.kept = nil
	if !keep {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// broken fails the test if a line cannot be logged.
type broken struct{ t testing.TB }

func (b broken) Write(p []byte) (int, error) {
	b.t.Errorf("logging: %s", p)
	return len(p), nil
}
