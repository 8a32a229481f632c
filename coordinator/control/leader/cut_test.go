package leader_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/codehub/gateway/coordinator/control/leader"
)

// cable is a connection to the server that can be cut without either end noticing. As in a partitioned network, no more
// data arrives then, but neither end sees the connection close.
type cable struct {
	gate sync.RWMutex // held for writing while cut
	cfg  *pgx.ConnConfig
}

func lay(t *testing.T, cfg *pgx.ConnConfig) *cable {
	t.Helper()
	network, address := pgconn.NetworkAddress(cfg.Host, cfg.Port)
	dir, err := os.MkdirTemp("", "pg")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	c := &cable{cfg: cfg.Copy()}
	c.cfg.Host, c.cfg.Port = dir, 5432
	var all sync.WaitGroup
	all.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial(network, address)
			if err != nil {
				near.Close()
				continue
			}
			stop := context.AfterFunc(ctx, func() { near.Close(); far.Close() })
			all.Go(func() { defer stop(); c.carry(near, far) })
			all.Go(func() { c.carry(far, near) })
		}
	})
	t.Cleanup(func() {
		cancel()
		l.Close()
		all.Wait()
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return c
}

// carry copies data in one direction, and passes on the end of the connection. Once the cable is cut it does neither.
func (c *cable) carry(from, to net.Conn) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		c.gate.RLock()
		if n > 0 {
			_, _ = to.Write(buf[:n])
		}
		if err != nil {
			if err == io.EOF {
				to.Close()
			}
			c.gate.RUnlock()
			return
		}
		c.gate.RUnlock()
	}
}

func TestALeaderThatIsCutOffStopsBeforeItIsReplaced(t *testing.T) {
	cfg, conn := database(t)
	c := lay(t, cfg)
	// The first process must not lose its lease before the cable is cut.
	brief := func(o *leader.Options) { o.LeaseDuration = leader.DefaultLeaseDuration }
	a := start(t, c.cfg, "a", brief)
	first := a.leads(t)
	b := start(t, cfg, "b", brief)
	waiting(t, conn)

	c.gate.Lock()
	defer c.gate.Unlock()
	second := b.leads(t)
	if first.ctx.Err() == nil {
		t.Error("the leader that was cut off still leads beside its successor")
	}
	if first.Lease() {
		t.Error("the leader that was cut off still holds its lease")
	}
	if second.Fence.Epoch != 2 {
		t.Errorf("the second epoch is %d", second.Fence.Epoch)
	}
}
