package network

import (
	"net/netip"
	"testing"
)

func TestCandidatesOverlapWithNothing(t *testing.T) {
	used := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.31.5.0/24")}
	for _, owner := range []string{"a", "b"} {
		got := candidates(owner, used)
		if len(got) != 15 || got[0] != netip.MustParsePrefix("172.30.0.0/16") {
			t.Errorf("%s: %s", owner, got)
		}
	}
	if got := candidates("a", []netip.Prefix{netip.MustParsePrefix("0.0.0.0/1"), netip.MustParsePrefix("128.0.0.0/1")}); len(got) != 0 {
		t.Errorf("with everything in use: %s", got)
	}
	a, b := candidates("a", nil), candidates("b", nil)
	if len(a) != 127+16 || a[0] == b[0] {
		t.Errorf("%d candidates, both begin with %s", len(a), a[0])
	}
}

func TestRoutes(t *testing.T) {
	got := routes("Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n" +
		"eth0\t00000000\t010011AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n" +
		"tun0\t00800A0A\t00000000\t0001\t0\t0\t0\t0080FFFF\t0\t0\t0\n")
	if len(got) != 1 || got[0] != netip.MustParsePrefix("10.10.128.0/17") {
		t.Errorf("%s", got)
	}
}
