package codehub

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// listenElsewhere starts another process that listens on a port of its choice.
func listenElsewhere(t *testing.T) (port string, pid int) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestListensForAnother$")
	cmd.Env = append(os.Environ(), "CODEHUB_TEST_LISTENS=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if at, ok := strings.CutPrefix(lines.Text(), "listening at "); ok {
			_, port, _ = net.SplitHostPort(at)
			return port, cmd.Process.Pid
		}
	}
	t.Fatal("the other process does not listen")
	return "", 0
}

// TestListensForAnother is the other process.
func TestListensForAnother(t *testing.T) {
	if os.Getenv("CODEHUB_TEST_LISTENS") == "" {
		return
	}
	shared := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error { // as Caddy does
		return c.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_REUSEPORT, 1) })
	}}
	l, err := shared.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	os.Stdout.WriteString("listening at " + l.Addr().String() + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // until the test ends
}

// Caddy shares a port silently: half of the requests would then reach the wrong process.
func TestAPortOfAnotherProcessIsRefused(t *testing.T) {
	in := install(t)
	free, err := server.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	in.listen = []string{"127.0.0.1:" + strconv.Itoa(free)}
	for range 3 { // a reload listens where this process does already
		if err := in.load(); err != nil {
			t.Fatal(err)
		}
	}
	port, pid := listenElsewhere(t)
	in.listen = []string{"127.0.0.1:" + port}
	err = in.load()
	for _, want := range []string{"port " + port + " is in use", "process id " + strconv.Itoa(pid), "choose another port", "share_ports"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in: %v", want, err)
		}
	}
	in.listen = nil
	if err := in.load(); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}

func TestAddressesOfListeners(t *testing.T) {
	for listen, want := range map[string][]string{
		":8080":                {"invalid AddrPort"},
		"127.0.0.1:80-81":      {"127.0.0.1:80", "127.0.0.1:81"},
		"tcp4/0.0.0.0:9":       {"0.0.0.0:9"},
		"[::1]:7":              {"[::1]:7"},
		"localhost:7":          {"127.0.0.1:7", "[::1]:7"},
		"unix//run/caddy.sock": nil,
		"udp/127.0.0.1:53":     nil,
		"fd/3":                 nil,
	} {
		var got []string
		for _, a := range tcpAddresses(listen) {
			if a.Addr() == (netip.Addr{}) && a.Port() == 8080 {
				got = append(got, "invalid AddrPort")
				continue
			}
			got = append(got, a.String())
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: got %v, want %v", listen, got, want)
		}
	}
}
