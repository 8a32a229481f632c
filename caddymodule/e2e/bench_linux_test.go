package e2e

import (
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/wait"
)

const (
	// benchPairs is how often the two sites take turns, and benchPhase about how long one turn lasts. With many short
	// turns, both sites share the noise of a busy machine: at a load of 17, 220 turns of 80 ms gave half the error of
	// 60 turns of 300 ms. The disadvantage: a garbage collection may fall into the other site's turn. This hides about
	// half of what the collection of our allocations costs (about 0.5 %).
	benchPairs = 200
	benchPhase = 100 * time.Millisecond
	// benchBudget ends a comparison early on a machine that is too busy for all pairs.
	benchBudget = 40 * time.Second
	// benchDeadline ends a benchmark that hangs.
	benchDeadline = 5 * time.Minute
	// warmUp is how many requests each connection sends before the measurement begins.
	warmUp = 200
)

var profileFolder = flag.String("gateway-profile", "", "folder to which BenchmarkGateway writes a CPU profile of each site")

// site is one of the two ways to the container.
type site struct {
	name        string
	conns       []*connection
	cpu         []time.Duration // per request, one value per turn
	allocations float64         // per request
}

// BenchmarkGateway measures what a request costs the Caddy process: through the gateway and, for comparison, through a
// plain reverse_proxy to the same container. Both are sites of one process and take turns, so that they share its
// memory layout, its background work and the noise of the machine. The client is the test process, which does not
// count. The benchmark prints its results and never fails because of them. `make bench-gateway` runs it.
func BenchmarkGateway(b *testing.B) {
	in := install(b, "CODEHUB_WORKSPACE_URL=path") // the one host that needs no other name
	me := in.admin(b)
	w := me.create(b, "measured")
	plain := in.addPlainSite(b, w.ID)
	gateway := strings.TrimSuffix(byHost.base(in, w.ID), "/")
	me.navigate(b, gateway+"/") // signs in on the workspace's host
	wait.For(b, "the workspace answers", func() error { return me.showsTerminal(b, gateway+"/") })

	// These are the headers that a script in a page of the workspace sends.
	h := http.Header{
		"User-Agent":     {"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36"},
		"Accept":         {"*/*"},
		"Sec-Fetch-Mode": {"cors"}, "Sec-Fetch-Dest": {"empty"}, "Sec-Fetch-Site": {"same-origin"},
		"Cookie": {me.cookie(b, gateway)},
	}
	in.compare(b, "http",
		&site{name: "gateway", conns: connectHTTP(b, 16, gateway+"/kilobyte", h, http.StatusOK, 1<<10)},
		&site{name: "plain", conns: connectHTTP(b, 16, plain+"/kilobyte", h, http.StatusOK, 1<<10)})
	in.compare(b, "download",
		&site{name: "gateway", conns: connectHTTP(b, 2, gateway+"/mebibyte", h, http.StatusOK, 1<<20)},
		&site{name: "plain", conns: connectHTTP(b, 2, plain+"/mebibyte", h, http.StatusOK, 1<<20)})
	in.compare(b, "ws",
		&site{name: "gateway", conns: connectWebSocket(b, 64, gateway+"/echo", h)},
		&site{name: "plain", conns: connectWebSocket(b, 64, plain+"/echo", h)})
	presenceOverhead(b, me, gateway+"/")
	in.countQueries(b, &site{name: "gateway", conns: connectHTTP(b, 16, gateway+"/kilobyte", h, http.StatusOK, 1<<10)})
	in.compareAsleep(b, me, w.ID, h) // last: the workspace sleeps afterwards
	b.ReportMetric(0, "ns/op")       // the duration of the whole comparison says nothing
}

// cookie returns the Cookie header that a browser sends with a request for url.
func (u *user) cookie(t testing.TB, url string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range u.http.Jar.Cookies(r.URL) {
		r.AddCookie(c)
	}
	return r.Header.Get("Cookie")
}

// addPlainSite restarts the program with a second site, a plain reverse_proxy to the
// workspace's container, and returns the URL of that site.
func (in *installation) addPlainSite(b *testing.B, id string) string {
	b.Helper()
	return in.addSite(b, fmt.Sprintf("\treverse_proxy %s:8080\n", in.addressOf(b, id)))
}

// addSite restarts the program with another site of these directives, and returns its URL.
func (in *installation) addSite(b *testing.B, directives string) string {
	b.Helper()
	config, err := os.ReadFile(in.config)
	if err != nil {
		b.Fatal(err)
	}
	port := freePort(b)
	config = fmt.Appendf(config, "\nhttp://:%d {\n\tbind 127.0.0.1\n%s}\n", port, directives)
	in.config = filepath.Join(b.TempDir(), "Caddyfile")
	if err := os.WriteFile(in.config, config, 0o600); err != nil {
		b.Fatal(err)
	}
	in.stop(b)
	in.start(b)
	return fmt.Sprintf("http://localhost:%d", port)
}

// compare lets the two sites take turns, and prints the cost of a request at each. It returns the ratio of the two
// costs.
func (in *installation) compare(b *testing.B, protocol string, gateway, plain *site) float64 {
	b.Helper()
	sites := []*site{gateway, plain}
	n := 0 // requests per connection and turn
	for _, s := range sites {
		start := time.Now()
		s.run(b, warmUp)
		n = max(n, 1, int(warmUp*benchPhase/time.Since(start)))
	}
	perTurn := n * len(gateway.conns)

	var ratios []float64
	for start := time.Now(); len(ratios) < benchPairs && time.Since(start) < benchBudget; {
		for i := range sites {
			s := sites[(len(ratios)+i)%2] // each goes first equally often
			before := in.cpuTime(b)
			s.run(b, n)
			s.cpu = append(s.cpu, (in.cpuTime(b)-before)/time.Duration(perTurn))
		}
		ratios = append(ratios, float64(gateway.cpu[len(ratios)])/float64(plain.cpu[len(ratios)]))
	}
	for _, s := range sites {
		before := in.allocations(b)
		s.run(b, n)
		s.allocations = float64(in.allocations(b)-before) / float64(perTurn)
	}

	slices.Sort(ratios)
	name := "gateway_" + protocol
	figure(name+"_cpu_ratio", median(ratios), "ratio")
	figure(name+"_cpu_ratio_error", medianError(ratios), "ratio")
	figure(name+"_cpu_ratio_min", ratios[0], "ratio")
	figure(name+"_cpu_ratio_max", ratios[len(ratios)-1], "ratio")
	figure(name+"_allocations_added", gateway.allocations-plain.allocations, "allocations/request")
	for _, s := range sites {
		slices.Sort(s.cpu)
		figure(s.name+"_"+protocol+"_cpu", float64(median(s.cpu))/1e3, "us/request")
		figure(s.name+"_"+protocol+"_requests", float64(perTurn*len(ratios)), "requests")
	}
	for _, s := range sites {
		in.profile(b, s, protocol)
	}
	return median(ratios)
}

// run sends n requests on each connection.
func (s *site) run(b *testing.B, n int) {
	b.Helper()
	if err := exchange(s.conns, n); err != nil {
		b.Fatalf("%s: %v", s.name, err)
	}
}

// profile writes a CPU profile of the program while it serves one site, if the flag names a folder for profiles.
func (in *installation) profile(b *testing.B, s *site, protocol string) {
	b.Helper()
	if *profileFolder == "" {
		return
	}
	done, failed := make(chan struct{}), make(chan error, 1)
	go func() {
		for {
			select {
			case <-done:
				close(failed)
				return
			default:
			}
			if err := exchange(s.conns, warmUp); err != nil {
				failed <- err
				return
			}
		}
	}()
	profile := in.debug(b, "pprof/profile?seconds=10")
	close(done)
	if err := <-failed; err != nil {
		b.Fatalf("%s: %v", s.name, err)
	}
	path := filepath.Join(*profileFolder, s.name+"-"+protocol+".pprof")
	if err := os.WriteFile(path, profile, 0o600); err != nil {
		b.Fatal(err)
	}
}

// figure prints one result.
func figure(name string, value float64, unit string) {
	fmt.Printf("figure %s %.3f %s\n", name, value, unit)
}

// medianError estimates from the quartiles of sorted values the standard error of their median: by how much the result
// would differ if the benchmark ran again now.
func medianError(sorted []float64) float64 {
	n := len(sorted)
	// In a normal distribution, the quartiles are 1.35 standard deviations apart, and the median's error is 1.25 times
	// that of the mean.
	deviation := (sorted[n*3/4] - sorted[n/4]) / 1.35
	return 1.25 * deviation / math.Sqrt(float64(n))
}

// median returns the middle one of sorted values.
func median[T any](sorted []T) T { return sorted[len(sorted)/2] }
