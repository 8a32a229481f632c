package codehub

import (
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// vanish makes the kernel silently drop every packet that arrives for the connection, as if a container's network had
// disappeared before its processes.
func vanish(t *testing.T, conn net.Conn) {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	drop := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K}
	var set error
	if err := raw.Control(func(fd uintptr) {
		set = unix.SetsockoptSockFprog(int(fd), unix.SOL_SOCKET, unix.SO_ATTACH_FILTER, &unix.SockFprog{Len: 1, Filter: &drop})
	}); err != nil || set != nil {
		t.Fatal(err, set)
	}
}

// dropped returns how many packets the kernel has dropped for the connection.
func dropped(t *testing.T, conn net.Conn) uint32 {
	t.Helper()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var info [9]uint32 // the last one is SK_MEMINFO_DROPS
	size := uint32(unsafe.Sizeof(info))
	var errno unix.Errno
	if err := raw.Control(func(fd uintptr) {
		_, _, errno = unix.Syscall6(unix.SYS_GETSOCKOPT, fd, unix.SOL_SOCKET, unix.SO_MEMINFO,
			uintptr(unsafe.Pointer(&info)), uintptr(unsafe.Pointer(&size)), 0)
	}); err != nil || errno != 0 {
		t.Fatal(err, errno)
	}
	return info[8]
}

// TestARequestDoesNotWaitForAVanishedContainer: a container disappears without closing its connections. A client that
// waits for an answer gets an error soon after the route has ended. Otherwise it would wait for minutes, until the
// operating system gives up. Requests to a container that still exists continue.
func TestARequestDoesNotWaitForAVanishedContainer(t *testing.T) {
	s := startGateway(t, map[string]any{"page_wait": "10ms", "wake_timeout": "30s"})
	s.Table.Confirmed(clock.Moment{}, clock.Now())
	arrived, release := make(chan net.Conn), make(chan struct{})
	app := moveIn(t, "one", "", func(w http.ResponseWriter, r *http.Request) {
		path := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
		if path == "" {
			_, _ = io.WriteString(w, "one")
			return
		}
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		switch path {
		case "kept": // the next request on this connection is never acknowledged
			_, _ = io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nkept")
		case "socket":
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n")
		}
		arrived <- conn
		<-release
		if path == "live" {
			_, _ = buffered.WriteString("HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\r\nlive")
			_ = buffered.Flush()
		}
	})
	end := func() { close(release) }
	defer func() { end() }()
	s.Run(gatewaytest.One, app.Server)
	wait.Until(t, "the workspace answers", func() bool {
		status, got := s.send("GET", gatewaytest.OnePath+"/", "")
		return status == 200 && got == "one"
	})
	type answer struct {
		status int
		text   string
	}
	send := func(method, path, body string, header ...string) <-chan answer {
		c := make(chan answer, 1)
		go func() {
			defer close(c)
			status, text := s.send(method, gatewaytest.OnePath+"/"+path, body, header...)
			c <- answer{status, text}
		}()
		return c
	}

	live := send("GET", "live", "")
	<-arrived
	silent := send("POST", "silent", "body")
	silentConn := <-arrived
	vanish(t, silentConn)
	socket, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	_ = socket.SetDeadline(time.Now().Add(wait.Timeout))
	_, _ = io.WriteString(socket, "GET "+gatewaytest.OnePath+"/socket HTTP/1.1\r\nHost: localhost\r\n"+gatewaytest.UserHeader+": alice\r\n"+
		"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n")
	vanish(t, <-arrived)
	socketEnded := make(chan error, 1)
	go func() { _, err := io.Copy(io.Discard, socket); socketEnded <- err }()
	kept := send("GET", "kept", "")
	keptConn := <-arrived
	vanish(t, keptConn)
	if a := <-kept; a.status != 200 || a.text != "kept" {
		t.Fatalf("the request before: %+v", a)
	}
	unacknowledged := send("POST", "unacknowledged", "body")
	wait.Until(t, "the request is sent", func() bool { return dropped(t, keptConn) > 0 })

	s.Change(gatewaytest.One, func(r *store.Route) {
		r.Phase, r.Desired, r.Endpoint = workspace.PhaseStandby, workspace.DesiredStandby, ""
	})
	if a := <-silent; a.status != http.StatusGatewayTimeout || !strings.Contains(a.text, "problem:no-answer") {
		t.Errorf("a request that the container has read: %+v", a)
	}
	if a := <-unacknowledged; a.status != http.StatusGatewayTimeout || !strings.Contains(a.text, "problem:no-answer") {
		t.Errorf("a request that it never got: %+v", a)
	}
	if err := <-socketEnded; errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a WebSocket to it stays open")
	}
	end()
	end = func() {}
	if a := <-live; a.status != 200 || a.text != "live" {
		t.Errorf("a request to a container that was still there: %+v", a)
	}
}
