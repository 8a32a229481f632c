package spec

import "testing"

func TestRange(t *testing.T) {
	for subnet, want := range map[string]struct {
		first, dynamic string
		size           int64
	}{
		"10.213.0.0/16": {"10.213.0.2", "10.213.255.0/24", 65278},
		"10.1.2.0/24":   {"10.1.2.2", "10.1.2.252/30", 250},
		"10.1.2.8/29":   {"10.1.2.10", "10.1.2.12/30", 2},
	} {
		p, err := ParseSubnet(subnet)
		if err != nil {
			t.Fatal(err)
		}
		first, size := Range(p)
		if first.String() != want.first || size != want.size || Dynamic(p).String() != want.dynamic {
			t.Errorf("%s: %d from %s on, dynamic %s, want %+v", subnet, size, first, Dynamic(p), want)
		}
		if IPv4(Number(first)) != first {
			t.Errorf("%s becomes %s", first, IPv4(Number(first)))
		}
	}
	for _, bad := range []string{"", "10.0.0.1/16", "10.0.0.0/30", "0.0.0.0/0", "fd00::/64", "10.0.0.0"} {
		if p, err := ParseSubnet(bad); err == nil {
			t.Errorf("%q is %s", bad, p)
		}
	}
}
