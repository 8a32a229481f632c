package coordinator

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
)

// The test binary is also the process that the benchmarks kill and stop. The variables below decide what it does: it is
// a coordinator with the options in the first variable, or it only holds a lock in the database in the second. It ends
// when its standard input does.
const (
	coordinatorEnv = "CODEHUB_TEST_COORDINATOR"
	bareEnv        = "CODEHUB_TEST_BARE"
)

// bareLock is the key of the lock of the bare process.
const bareLock = 77

func TestMain(m *testing.M) {
	var err error
	switch options, database := os.Getenv(coordinatorEnv), os.Getenv(bareEnv); {
	case options != "":
		err = coordinate(options)
	case database != "":
		err = holdBareLock(database)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// coordinate runs a coordinator. It prints a line for every request that changes a
// container.
func coordinate(options string) error {
	var o Options
	if err := json.Unmarshal([]byte(options), &o); err != nil {
		return err
	}
	var mu sync.Mutex
	o.Wrap.Backend = func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method != http.MethodGet && r.Method != http.MethodHead && strings.Contains(r.URL.Path, "/containers/") {
				mu.Lock()
				fmt.Println("action", time.Now().UnixNano(), r.Method, r.URL.Path)
				mu.Unlock()
			}
			return next.RoundTrip(r)
		})
	}
	c, err := New(o, zap.NewNop())
	if err != nil {
		return err
	}
	if err := c.Start(context.Background()); err != nil {
		return err
	}
	fmt.Println("started")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return c.Stop(context.Background())
}

// holdBareLock holds an advisory lock and nothing else.
func holdBareLock(database string) error {
	conn, err := pgx.Connect(context.Background(), database)
	if err != nil {
		return err
	}
	if _, err := conn.Exec(context.Background(), "SELECT pg_advisory_lock($1)", bareLock); err != nil {
		return err
	}
	fmt.Println("started")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// process is a process of the test binary.
type process struct {
	node   string
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	reader sync.WaitGroup
	ended  bool

	mu    sync.Mutex
	lines []string
}

// startProcess starts a process with the variable, and returns when it has started. It ends
// with the test.
func startProcess(t testing.TB, node, variable string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Stderr = testlog.Writer(t)
	return startCommand(t, node, cmd, variable)
}

// startCommand starts another program in the same way. The lines include the process's standard error, unless the
// command already redirects that.
func startCommand(t testing.TB, node string, cmd *exec.Cmd, variable string) *process {
	t.Helper()
	p := &process{node: node, cmd: cmd}
	p.cmd.Env = append(os.Environ(), variable)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if p.cmd.Stderr == nil {
		p.cmd.Stderr = p.cmd.Stdout
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.reader.Go(func() {
		for s := bufio.NewScanner(stdout); s.Scan(); {
			p.mu.Lock()
			p.lines = append(p.lines, s.Text())
			p.mu.Unlock()
		}
	})
	t.Cleanup(func() { p.kill(t) })
	wait.Until(t, node+" has started", func() bool { return len(p.printed("started")) > 0 })
	return p
}

// kill ends the process as SIGKILL does, unless it has ended.
func (p *process) kill(t testing.TB) {
	t.Helper()
	if p.ended {
		return
	}
	p.ended = true
	p.signal(t, syscall.SIGKILL)
	p.reader.Wait()
	_ = p.cmd.Wait()
}

func (p *process) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// printed returns the lines that begin with word.
func (p *process) printed(word string) (lines []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.lines {
		if strings.HasPrefix(l, word) {
			lines = append(lines, l)
		}
	}
	return lines
}

// actionAfter returns when the process first acted on a container after t.
func (p *process) actionAfter(t time.Time) (time.Time, bool) {
	for _, l := range p.printed("action") {
		var at int64
		if _, err := fmt.Sscanf(l, "action %d", &at); err == nil && at > t.UnixNano() {
			return time.Unix(0, at), true
		}
	}
	return time.Time{}, false
}
