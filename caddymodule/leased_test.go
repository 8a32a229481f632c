package codehub

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// tenant is the application of a workspace. Another workspace may have had its address before.
type tenant struct {
	*httptest.Server
	secrets atomic.Int64 // requests with the header X-Secret
}

// moveIn starts a tenant at the address, "" for any. It answers with its name unless handle is given.
func moveIn(t *testing.T, name, address string, handle http.HandlerFunc) *tenant {
	t.Helper()
	n := new(tenant)
	n.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Secret") != "" {
			n.secrets.Add(1)
		}
		if handle != nil {
			handle(w, r)
			return
		}
		_, _ = io.WriteString(w, name)
	}))
	if address != "" {
		n.Listener.Close()
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		n.Listener = l
	}
	n.Start()
	t.Cleanup(n.Close)
	return n
}

// TestARouteIsNotUsedAfterItsLease checks a process that cannot reach its database. The process still has a route to a
// workspace, but the address in it meanwhile belongs to another workspace.
func TestARouteIsNotUsedAfterItsLease(t *testing.T) {
	s := startGateway(t, map[string]any{"page_wait": "10ms", "wake_timeout": "30s"})
	s.Table.SetLease(route.MinLease)
	s.Table.Confirmed(clock.Moment{}, clock.Now())
	first := moveIn(t, "one", "", nil)
	s.Run(gatewaytest.One, first.Server)
	wait.Until(t, "the workspace answers", func() bool {
		status, got := s.send("GET", gatewaytest.OnePath+"/", "", "X-Secret", "1")
		return status == 200 && got == "one"
	})
	wait.Until(t, "the lease is over", func() bool { return !s.Table.Fresh() })
	address := first.Listener.Addr().String()
	first.Close()
	second := moveIn(t, "two", address, nil)

	page := []string{"X-Secret", "1", "Sec-Fetch-Mode", "navigate"}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			for range 20 {
				if status, got := s.send("GET", gatewaytest.OnePath+"/", "", page...); status != http.StatusServiceUnavailable {
					t.Errorf("a page gets %d: %s", status, got)
				}
			}
		})
	}
	all.Wait()
	// A program's request is held, and continues when the route is confirmed.
	held := make(chan string, 1)
	go func() { _, got := s.send("GET", gatewaytest.OnePath+"/", "", "X-Secret", "1"); held <- got }()
	wait.Until(t, "the request is held", func() bool { return s.Wakes.Held() > 0 })
	moved := moveIn(t, "one, moved", "", nil)
	s.Change(gatewaytest.One, func(r *store.Route) { r.Endpoint = moved.Listener.Addr().String() })
	s.Table.Confirmed(clock.Moment{}, clock.Now())
	if got := <-held; got != "one, moved" {
		t.Errorf("the held request gets %q", got)
	}
	if n := second.secrets.Load(); n != 0 {
		t.Errorf("the other workspace has seen %d requests", n)
	}
}

// TestARepeatedRequestDoesNotReachTheNextTenant checks a request that the transport sends again, because the connection
// that it had kept breaks. By then the address belongs to another workspace, and the transport keeps connections to
// that workspace, too.
func TestARepeatedRequestDoesNotReachTheNextTenant(t *testing.T) {
	s := startGateway(t, map[string]any{"page_wait": "10ms"})
	s.Table.Confirmed(clock.Moment{}, clock.Now())
	var first, second *tenant
	var leaving atomic.Bool
	first = moveIn(t, "one", "", func(w http.ResponseWriter, r *http.Request) {
		if !leaving.Load() {
			_, _ = io.WriteString(w, "one")
			return
		}
		// The container ends while it has a request, and another server takes its address.
		address := first.Listener.Addr().String()
		first.Listener.Close()
		s.Change(gatewaytest.One, func(r *store.Route) {
			r.Phase, r.Desired, r.Endpoint = workspace.PhaseStandby, workspace.DesiredStandby, ""
		})
		second = moveIn(t, "two", address, nil)
		s.Run(gatewaytest.Two, second.Server)
		wait.Until(t, "the other workspace answers", func() bool {
			status, got := s.send("GET", gatewaytest.TwoPath+"/", "")
			return status == 200 && got == "two"
		})
		conn, _, err := http.NewResponseController(w).Hijack()
		if err == nil {
			conn.Close()
		}
	})
	s.Run(gatewaytest.One, first.Server)
	wait.Until(t, "the workspace answers", func() bool {
		status, _ := s.send("GET", gatewaytest.OnePath+"/", "")
		return status == 200
	})
	leaving.Store(true)
	status, got := s.send("GET", gatewaytest.OnePath+"/", "", "X-Secret", "1", "Sec-Fetch-Mode", "navigate")
	if second == nil {
		t.Fatal("no other server took the address: nothing was tested")
	}
	if n := second.secrets.Load(); n != 0 || status == 200 {
		t.Errorf("the other workspace has seen %d requests; the answer is %d %s", n, status, got)
	}
}

// TestTheLeaseCostsNoAllocation on the path of a request to a running workspace.
func TestTheLeaseCostsNoAllocation(t *testing.T) {
	p := gatewaytest.New(t)
	p.Table.Confirmed(clock.Moment{}, clock.Now())
	app := gatewaytest.Echo(t)
	p.Run(gatewaytest.One, app)
	e, _ := p.Table.Lookup(gatewaytest.One)
	st, address := e.State(), app.Listener.Addr().String()
	if n := testing.AllocsPerRun(100, func() {
		if !p.Table.Fresh() || st.Key(address) == address {
			t.Fatal("not fresh, or no key")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
