package api_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/wait"
)

// The load of BenchmarkEvents: streams, users, and changes per second. Each change is to a workspace of one of the
// users.
const (
	benchStreams  = 1000
	benchChanges  = 200
	benchDuration = 20 * time.Second
	benchOwned    = 3 // workspaces per user
)

// benchClientsEnv holds the input of the client process.
const benchClientsEnv = "CODEHUB_BENCH_EVENT_CLIENTS"

// benchClients is the input of the client process: the server's address, the sessions, and the number of streams that
// each session opens.
type benchClients struct {
	Address  string
	Sessions []string
	Streams  int
}

// BenchmarkEvents measures the time from before the commit of a change until a client receives it, and the
// memory that each client costs the server's process. The handler is the real one, over TCP and
// PostgreSQL; the clients are another process. `make bench-events` runs it.
func BenchmarkEvents(b *testing.B) {
	for _, c := range []struct {
		name  string
		users int
	}{{"event", 100}, {"event_many_tabs", 20}} {
		b.Run(c.name, func(b *testing.B) { benchEvents(b, c.name, c.users) })
	}
}

func benchEvents(b *testing.B, name string, users int) {
	in := newSerialHarness(b)
	told := benchClients{Address: in.server.Listener.Addr().String(), Streams: benchStreams / users}
	var ids []string
	for n := range users {
		owner := in.signedIn(fmt.Sprintf("user-%d", n))
		told.Sessions = append(told.Sessions, owner.Cookie)
		for range benchOwned {
			a := owner.Do("POST", "/api/v1/workspaces", map[string]any{"name": "measured", "desired_state": "STANDBY"})
			ids = append(ids, a.Object(b)["id"].(string))
		}
	}
	heap, resident := benchMemory(b)
	clients := startBenchClients(b, told)
	withClients, residentWithClients := benchMemory(b)
	fmt.Printf("figure %s_client_memory_kib %.1f KiB\n", name, float64(withClients-heap)/1024/benchStreams)
	fmt.Printf("figure %s_client_rss_kib %.1f KiB\n", name, float64(residentWithClients-resident)/1024/benchStreams)

	var before, after syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &before)
	ticker := time.NewTicker(time.Second / benchChanges)
	defer ticker.Stop()
	pool := storetest.Pool(b, in.store)
	var writing sync.WaitGroup
	began := time.Now()
	for n := 0; time.Since(began) < benchDuration; n++ {
		<-ticker.C
		writing.Go(func() {
			if _, err := pool.Exec(b.Context(), "UPDATE workspaces SET memo = $2 WHERE id = $1",
				ids[n%len(ids)], strconv.FormatInt(time.Now().UnixNano(), 10)); err != nil {
				b.Error(err)
			}
		})
	}
	writing.Wait()
	took := time.Since(began)
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &after)
	latencies := clients.stop(b)
	at := func(share float64) float64 {
		return float64(latencies[int(float64(len(latencies)-1)*share)].Microseconds()) / 1000
	}
	fmt.Printf("figure %s_commit_to_client_ms %.1f ms\n", name, at(0.5))
	fmt.Printf("figure %s_commit_to_client_p99_ms %.1f ms\n", name, at(0.99))
	fmt.Printf("figure %s_commit_to_client_max_ms %.1f ms\n", name, at(1))
	fmt.Printf("figure %s_delivered_per_s %.0f events/s\n", name, float64(len(latencies))/took.Seconds())
	cpu := time.Duration(after.Utime.Nano() + after.Stime.Nano() - before.Utime.Nano() - before.Stime.Nano())
	fmt.Printf("figure %s_server_cpu %.2f cores\n", name, cpu.Seconds()/took.Seconds())
	b.ReportMetric(0, "ns/op")
}

// benchMemory returns the memory of this process: heap and stacks after a garbage collection, and the
// resident set.
func benchMemory(b *testing.B) (heap, resident int64) {
	b.Helper()
	debug.FreeOSMemory()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	pages, err := strconv.ParseInt(strings.Fields(string(text))[1], 10, 64)
	if err != nil {
		b.Fatal(err)
	}
	return int64(m.HeapInuse + m.StackInuse), pages * int64(os.Getpagesize())
}

// benchProcess is the client process.
type benchProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stdout *bufio.Reader
}

// startBenchClients starts the client process, and returns when all clients have received the current list.
func startBenchClients(b *testing.B, told benchClients) *benchProcess {
	b.Helper()
	text, err := json.Marshal(told)
	if err != nil {
		b.Fatal(err)
	}
	p := &benchProcess{cmd: exec.CommandContext(b.Context(), os.Args[0], "-test.run=^TestBenchClients$", "-test.count=1")}
	p.cmd.Env = append(os.Environ(), benchClientsEnv+"="+string(text))
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	p.stdout = bufio.NewReader(stdout)
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		b.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		b.Fatal(err)
	}
	if line, err := p.stdout.ReadString('\n'); line != "ready\n" {
		b.Fatalf("the clients say %q, %v", line, err)
	}
	return p
}

// stop ends the client process and returns the latencies with which changes arrived there, sorted.
func (p *benchProcess) stop(b *testing.B) (all []time.Duration) {
	b.Helper()
	_ = p.stdin.Close()
	if err := json.NewDecoder(p.stdout).Decode(&all); err != nil || len(all) == 0 {
		b.Fatalf("%d changes came, %v", len(all), err)
	}
	_, _ = io.Copy(io.Discard, p.stdout)
	if err := p.cmd.Wait(); err != nil {
		b.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// TestBenchClients is the client process of BenchmarkEvents; otherwise it does nothing.
func TestBenchClients(t *testing.T) {
	text := os.Getenv(benchClientsEnv)
	if text == "" {
		return
	}
	var told benchClients
	if err := json.Unmarshal([]byte(text), &told); err != nil {
		t.Fatal(err)
	}
	var reading, ready sync.WaitGroup
	var conns []net.Conn
	took := make([][]time.Duration, len(told.Sessions)*told.Streams)
	for i := range took {
		conn, err := net.DialTimeout("tcp", told.Address, wait.Timeout)
		if err != nil {
			t.Fatal(err)
		}
		conns = append(conns, conn)
		fmt.Fprintf(conn, "GET /api/v1/events HTTP/1.1\r\nHost: %s\r\nCookie: session=%s\r\n\r\n",
			apitest.Host, told.Sessions[i%len(told.Sessions)])
		ready.Add(1)
		reading.Go(func() { took[i] = readBenchEvents(conn, ready.Done) })
	}
	ready.Wait()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin) // until the changes are over
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Second)) // for the last ones
	}
	reading.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(slices.Concat(took...)); err != nil {
		t.Fatal(err)
	}
}

// readBenchEvents reads a stream and returns the latencies of its changes. The first heartbeat calls
// ready.
func readBenchEvents(conn net.Conn, ready func()) (took []time.Duration) {
	r := bufio.NewReader(conn)
	for begun := false; ; {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return took
		}
		if !begun && bytes.HasPrefix(line, []byte("event: heartbeat")) {
			begun = true
			ready()
		}
		_, memo, ok := bytes.Cut(line, []byte(`"memo":"`))
		if !ok {
			continue
		}
		text, _, _ := bytes.Cut(memo, []byte(`"`))
		if at, err := strconv.ParseInt(string(text), 10, 64); err == nil {
			took = append(took, time.Since(time.Unix(0, at)))
		}
	}
}
