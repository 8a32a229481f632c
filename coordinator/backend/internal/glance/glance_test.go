package glance

import (
	"reflect"
	"testing"
	"time"
)

func TestParse(t *testing.T) {
	out := `4
==> /proc/net/tcp <==
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 1 1
   1: 00000000:0BB8 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 2 1
   2: 020011AC:0BB9 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 3 1
   3: 00000000:0BBA 020011AC:1234 01 00000000:00000000 00:00000000 00000000  1000        0 4 1
   4: bad:0BBB 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 5 1
   5: 0B00007F:A001 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 5 1

==> /proc/net/tcp6 <==
  sl  local_address                         remote_address                        st
   0: 00000000000000000000000000000000:1F90 00000000000000000000000000000000:0000 0A 00000000:00000000
   1: 00000000000000000000000001000000:1F91 00000000000000000000000000000000:0000 0A 00000000:00000000
   2: 0000000000000000FFFF00000100007F:1F92 00000000000000000000000000000000:0000 0A 00000000:00000000
   3: 0000000000000000FFFF0000020011AC:0050 00000000000000000000000000000000:0000 0A 00000000:00000000
   4: 00000000000000000000000000000000:0BB8 00000000000000000000000000000000:0000 0A 00000000:00000000

==> /sys/fs/cgroup/cpu.stat <==
usage_usec 1500000
user_usec 1

==> /sys/fs/cgroup/memory.current <==
5000

==> /sys/fs/cgroup/memory.stat <==
anon 3000
inactive_file 1000
`
	want := Seen{Processes: 3, Ports: []int{80, 3000, 3001, 8080}, Local: []int{8000, 8081, 8082}, CPU: 1500 * time.Millisecond, Memory: 4000}
	if got := Parse([]byte(out)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for _, out := range []string{"", "x\n", "-1\n==> /sys/fs/cgroup/memory.current <==\n-5\n", "==> /proc/net/tcp <==\n0: 1 2 0A\n"} {
		if got := Parse([]byte(out)); got.Processes != -1 || got.Ports != nil || got.CPU != -1 || got.Memory != -1 {
			t.Errorf("%q: %+v", out, got)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte("1\n==> /proc/net/tcp <==\n0: 00000000:0BB8 00000000:0000 0A\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		for _, port := range Parse(out).Ports {
			if port < 1 || port > 65535 {
				t.Errorf("port %d", port)
			}
		}
	})
}
