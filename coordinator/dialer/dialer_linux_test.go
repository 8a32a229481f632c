package dialer_test

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/dialer"
)

// accepting listens, and keeps accepted connections open until the test ends.
func accepting(t *testing.T, network, address string) string {
	t.Helper()
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
		}
	}()
	t.Cleanup(func() { _ = l.Close(); <-done })
	return l.Addr().String()
}

func option(t *testing.T, conn net.Conn, level, name int) (value int) {
	t.Helper()
	raw, err := conn.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var get error
	if err := raw.Control(func(fd uintptr) { value, get = unix.GetsockoptInt(int(fd), level, name) }); err != nil {
		t.Fatal(err)
	}
	if get != nil {
		t.Fatal(get)
	}
	return value
}

func TestTheLimitsAreSetOnTheSocket(t *testing.T) {
	address := accepting(t, "tcp", "127.0.0.1:0")
	for _, tt := range []struct {
		name   string
		limits dialer.Limits
		want   map[int]int // option of IPPROTO_TCP → value
	}{
		{"all", dialer.Limits{Connect: time.Second, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3, Unacknowledged: 1500 * time.Millisecond},
			map[int]int{unix.TCP_KEEPIDLE: 5, unix.TCP_KEEPINTVL: 2, unix.TCP_KEEPCNT: 3, unix.TCP_USER_TIMEOUT: 1500}},
		{"less than the option can express", dialer.Limits{Unacknowledged: time.Microsecond}, map[int]int{unix.TCP_USER_TIMEOUT: 1}},
		{"no limit for written data", dialer.Limits{}, map[int]int{unix.TCP_USER_TIMEOUT: 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			conn, err := dialer.New(tt.limits).DialContext(t.Context(), "tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if on := option(t, conn, unix.SOL_SOCKET, unix.SO_KEEPALIVE); on != 1 {
				t.Error("idle connections are not probed")
			}
			later, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			defer later.Close()
			if err := tt.limits.Set(later.(*net.TCPConn)); err != nil {
				t.Fatal(err)
			}
			for name, want := range tt.want {
				if got := option(t, conn, unix.IPPROTO_TCP, name); got != want {
					t.Errorf("option %d is %d, want %d", name, got, want)
				}
				if got := option(t, later, unix.IPPROTO_TCP, name); got != want {
					t.Errorf("set later, option %d is %d, want %d", name, got, want)
				}
			}
		})
	}
}

func TestAUnixSocketIsDialedWithoutTheLimits(t *testing.T) {
	path := accepting(t, "unix", filepath.Join(t.TempDir(), "s"))
	conn, err := dialer.New(dialer.Limits{Connect: time.Second, Unacknowledged: time.Second}).DialContext(t.Context(),
		"unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}

// TestConnectingIsBounded: a listener with a full backlog does not answer.
func TestConnectingIsBounded(t *testing.T) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	address := (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: name.(*unix.SockaddrInet4).Port}).String()
	d := dialer.New(dialer.Limits{Connect: 50 * time.Millisecond})
	for range 4 { // fills the backlog, and one more
		conn, err := d.DialContext(t.Context(), "tcp", address)
		if err == nil {
			defer conn.Close()
			continue
		}
		if timeout, ok := err.(net.Error); !ok || !timeout.Timeout() {
			t.Fatalf("the dial ends with %v", err)
		}
		return
	}
	t.Fatal("the dial waits for a peer that does not answer")
}
