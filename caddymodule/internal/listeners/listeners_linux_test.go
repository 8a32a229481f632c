package listeners

import (
	"bufio"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"testing"
)

// TestMain is also the other process: with LISTEN_AT it listens there and prints the address.
func TestMain(m *testing.M) {
	at := os.Getenv("LISTEN_AT")
	if at == "" {
		os.Exit(m.Run())
	}
	l, err := net.Listen("tcp", at)
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(l.Addr().String() + "\n")
	_, _ = os.Stdin.Read(make([]byte, 1)) // waits for the end of the test
}

// other starts another process that listens, and returns the address and the process id.
func other(t *testing.T, at string) (netip.AddrPort, int) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LISTEN_AT="+at)
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
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return netip.MustParseAddrPort(line[:len(line)-1]), cmd.Process.Pid
}

func TestOthers(t *testing.T) {
	at, pid := other(t, "127.0.0.1:0")
	everywhere, _ := other(t, "[::]:0")
	for name, c := range map[string]struct {
		wanted netip.AddrPort
		found  int
	}{
		"the same":              {at, 1},
		"all interfaces":        {netip.AddrPortFrom(netip.Addr{}, at.Port()), 1},
		"all of IPv4":           {netip.AddrPortFrom(netip.IPv4Unspecified(), at.Port()), 1},
		"another address":       {netip.AddrPortFrom(netip.MustParseAddr("127.0.0.2"), at.Port()), 0},
		"the loopback of IPv6":  {netip.AddrPortFrom(netip.IPv6Loopback(), at.Port()), 0},
		"one that all includes": {netip.AddrPortFrom(netip.MustParseAddr("127.0.0.1"), everywhere.Port()), 1},
		"and of IPv6":           {netip.AddrPortFrom(netip.IPv6Loopback(), everywhere.Port()), 1},
		"a port without socket": {netip.AddrPortFrom(netip.IPv4Unspecified(), 1), 0},
	} {
		got, err := Others([]netip.AddrPort{c.wanted})
		if err != nil || len(got) != c.found {
			t.Errorf("%s: %v, %v; want %d", name, got, err, c.found)
		}
	}
	got, err := Others([]netip.AddrPort{at})
	if err != nil || len(got) != 1 || got[0].Address != at || got[0].PID != pid || got[0].Program == "" {
		t.Errorf("got %v, %v; want the process %d", got, err, pid)
	}
}

func TestThisProcessIsNoOther(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if got, err := Others([]netip.AddrPort{netip.MustParseAddrPort(l.Addr().String())}); err != nil || len(got) != 0 {
		t.Errorf("got %v, %v", got, err)
	}
}
