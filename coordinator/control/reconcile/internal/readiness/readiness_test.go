package readiness

import (
	"context"
	"errors"
	"net"
	"reflect"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestMain(m *testing.M) { wait.Main(m) }

const id = workspace.ID("0123abcd-0000-4000-8000-00000000000a")

// application is what a watch finds in a container.
type application struct {
	mu     sync.Mutex
	open   map[string]bool // the endpoints that answer
	stats  backend.Stats
	err    error
	probes map[string]int
	looks  int
	told   int
}

func (a *application) probe(_ context.Context, endpoint, _ string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.probes == nil {
		a.probes = make(map[string]int)
	}
	a.probes[endpoint]++
	return a.open[endpoint]
}

func (a *application) look(context.Context, workspace.ID) (backend.Stats, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looks++
	return a.stats, a.err
}

// set changes what the watch finds.
func (a *application) set(change func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	change()
}

// watch starts the watch of a container. known is the port at which an earlier container answered, or 0.
func (a *application) watch(t *testing.T, c workspace.Container, onePort bool, known int) *Watch {
	p := Prober{Probe: a.probe, Stats: a.look, OnePort: onePort}
	w, ctx := p.New(t.Context(), id, c, known, func() { a.set(func() { a.told++ }) })
	go w.Run(ctx)
	return w
}

var starting = workspace.Container{Running: true, Health: workspace.HealthStarting, Endpoint: "10.0.0.2:8080"}

func TestTheFirstAnswerIsNoticedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{open: map[string]bool{}}
		w := a.watch(t, starting, false, 0)
		time.Sleep(100 * time.Millisecond)
		a.set(func() { a.open[starting.Endpoint] = true })
		time.Sleep(probeMin)
		synctest.Wait()
		if got := w.Found(); !got.Answered || got.Silence != nil || a.told != 1 {
			t.Errorf("%+v, told %d times", got, a.told)
		}
		n := a.probes[starting.Endpoint]
		time.Sleep(time.Hour)
		if a.probes[starting.Endpoint] != n || a.looks != 0 {
			t.Errorf("it goes on: %d probes, then %d, %d looks", n, a.probes[starting.Endpoint], a.looks)
		}
	})
}

// When a user opens a workspace whose container has no health check, the gateway probes the container immediately. The
// watch does not interfere with that.
func TestAContainerWithoutAHealthCheckIsProbedLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{open: map[string]bool{starting.Endpoint: true}}
		c := starting
		c.Health, c.Ready = "", true
		w := a.watch(t, c, false, 0)
		time.Sleep(readyAfter - 1)
		synctest.Wait()
		if len(a.probes) != 0 {
			t.Error("it is probed at once")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if !w.Found().Answered {
			t.Error("it is not probed")
		}
	})
}

func TestWhatListensInstead(t *testing.T) {
	const here, there = "10.0.0.2:8080", "10.0.0.2:8888"
	for name, c := range map[string]struct {
		stats   backend.Stats
		err     error
		onePort bool
		open    []string
		age     time.Duration
		want    workspace.Readiness
	}{
		"just starting":          {stats: backend.Stats{Processes: 3}, age: 20 * time.Second},
		"nothing listens":        {stats: backend.Stats{Processes: 3}, age: time.Minute, want: silent(nil, nil)},
		"it listens and is mute": {stats: backend.Stats{Processes: 3, Ports: []int{22, 8080}}, age: time.Minute, want: silent([]int{22, 8080}, nil)},
		"mute, just starting":    {stats: backend.Stats{Processes: 3, Ports: []int{22, 8080}}, age: 20 * time.Second},
		"another one, declared": {stats: backend.Stats{Processes: 3, Ports: []int{8888}, Declared: []int{8888}}, open: []string{there}, age: 20 * time.Second,
			want: workspace.Readiness{Instead: 8888}},
		"another one, declared, at first": {stats: backend.Stats{Processes: 3, Ports: []int{8888}, Declared: []int{8888}}, open: []string{there}, age: 9 * time.Second,
			want: silent([]int{8888}, nil)},
		"another one of two that are declared": {stats: backend.Stats{Processes: 3, Ports: []int{8888}, Declared: []int{8888, 9229}}, open: []string{there},
			age: 20 * time.Second, want: workspace.Readiness{Instead: 8888}},
		"both are declared, at first": {stats: backend.Stats{Processes: 3, Ports: []int{8888}, Declared: []int{8080, 8888}}, open: []string{there}, age: 9 * time.Second,
			want: silent([]int{8888}, nil)},
		"both are declared, later": {stats: backend.Stats{Processes: 3, Ports: []int{8888}, Declared: []int{8080, 8888}}, open: []string{there}, age: 20 * time.Second,
			want: workspace.Readiness{Instead: 8888}},
		"another one, not declared":    {stats: backend.Stats{Processes: 3, Ports: []int{8888}}, open: []string{there}, age: time.Minute, want: silent([]int{8888}, nil)},
		"another one that is declared": {stats: backend.Stats{Processes: 3, Ports: []int{8888}, Declared: []int{9229}}, open: []string{there}, age: time.Minute, want: silent([]int{8888}, nil)},
		"declared, but mute":           {stats: backend.Stats{Processes: 3, Ports: []int{8888}, Declared: []int{8888}}, age: time.Minute, want: silent([]int{8888}, nil)},
		"two listen": {stats: backend.Stats{Processes: 3, Ports: []int{8888, 9229}, Declared: []int{8888}}, open: []string{there}, age: 20 * time.Second,
			want: silent([]int{8888, 9229}, nil)},
		"only the application's port can be reached": {stats: backend.Stats{Processes: 3, Ports: []int{8888}, Declared: []int{8888}}, open: []string{there},
			onePort: true, age: 20 * time.Second, want: silent([]int{8888}, nil)},
		"on the loopback address":     {stats: backend.Stats{Processes: 3, Local: []int{8080}}, age: 10 * time.Second, want: silent(nil, []int{8080})},
		"a helper's port, at first":   {stats: backend.Stats{Processes: 3, Local: []int{40123}}, age: 20 * time.Second},
		"a helper's port":             {stats: backend.Stats{Processes: 3, Local: []int{40123}}, age: time.Minute, want: silent(nil, []int{40123})},
		"nobody can say what listens": {err: errors.New("no shell"), age: time.Minute, want: silent(nil, nil)},
		"it answers after all":        {stats: backend.Stats{Processes: 3}, open: []string{here}, age: time.Second, want: workspace.Readiness{Answered: true}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &application{open: map[string]bool{}, stats: c.stats, err: c.err}
				for _, endpoint := range c.open {
					a.open[endpoint] = true
				}
				w := a.watch(t, starting, c.onePort, 0)
				time.Sleep(c.age)
				synctest.Wait()
				if got := w.Found(); !reflect.DeepEqual(got, c.want) {
					t.Errorf("%+v %+v, want %+v", got, got.Silence, c.want)
				}
				w.Cancel()
			})
		})
	}
}

// silent is the result while these ports listen.
func silent(ports, local []int) workspace.Readiness {
	return workspace.Readiness{Silence: &workspace.Silence{Port: 8080, Ports: ports, Local: local}}
}

// An application that has been silent for long is probed rarely, but its answer is still noticed.
func TestTheSilenceEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{open: map[string]bool{}, stats: backend.Stats{Processes: 1, Ports: []int{22}}}
		w := a.watch(t, starting, false, 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if w.Found().Silence == nil || a.told != 1 {
			t.Fatalf("%+v, told %d times", w.Found(), a.told)
		}
		if probes := a.probes[starting.Endpoint]; probes > 900 || a.looks > 80 {
			t.Errorf("%d probes and %d looks in an hour", probes, a.looks)
		}
		a.set(func() { a.open[starting.Endpoint] = true })
		time.Sleep(probeMax)
		synctest.Wait()
		if got := w.Found(); !got.Answered || got.Silence != nil || a.told != 2 {
			t.Errorf("%+v, told %d times", got, a.told)
		}
	})
}

// TestTheConfiguredPortWins: the configured port is preferred to a port that was found, however late it answers. The
// port that was found may serve only metrics, while the application is still being built.
func TestTheConfiguredPortWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const there = "10.0.0.2:9090"
		a := &application{open: map[string]bool{there: true}, stats: backend.Stats{Processes: 3, Ports: []int{9090}, Declared: []int{9090}}}
		w := a.watch(t, starting, false, 0)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.Found(); !reflect.DeepEqual(got, workspace.Readiness{Instead: 9090}) {
			t.Fatalf("%+v", got)
		}
		if probes := a.probes[starting.Endpoint]; probes > 200 || a.probes[there] != 1 || a.looks != 2 {
			t.Errorf("%d and %d probes and %d looks in an hour", probes, a.probes[there], a.looks)
		}
		a.set(func() { a.open[starting.Endpoint] = true })
		time.Sleep(probeInstead)
		synctest.Wait()
		if got := w.Found(); !reflect.DeepEqual(got, workspace.Readiness{Answered: true}) {
			t.Errorf("%+v", got)
		}
	})
}

// TestAKnownPortIsTriedAtOnce, after the configured one.
func TestAKnownPortIsTriedAtOnce(t *testing.T) {
	const here, there = "10.0.0.2:8080", "10.0.0.2:8888"
	for name, c := range map[string]struct {
		open    []string
		onePort bool
		want    workspace.Readiness
	}{
		"it answers":                           {open: []string{there}, want: workspace.Readiness{Instead: 8888}},
		"both answer":                          {open: []string{here, there}, want: workspace.Readiness{Answered: true}},
		"none does":                            {},
		"no other than the own can be reached": {open: []string{there}, onePort: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := &application{open: map[string]bool{}, stats: backend.Stats{Processes: 3}}
				for _, endpoint := range c.open {
					a.open[endpoint] = true
				}
				ready := starting
				ready.Health, ready.Ready = "", true
				w := a.watch(t, ready, c.onePort, 8888)
				synctest.Wait()
				if got := w.Found(); !reflect.DeepEqual(got, c.want) || a.looks != 0 {
					t.Errorf("%+v, want %+v; %d looks", got, c.want, a.looks)
				}
				w.Cancel()
			})
		})
	}
}

// If an image has no shell, the ports that it declares are tried from outside.
func TestListening(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	_, text, _ := net.SplitHostPort(l.Addr().String())
	open, _ := strconv.Atoi(text)
	if got := listening(t.Context(), new(net.Dialer).DialContext, "127.0.0.1", []int{1, open}); !reflect.DeepEqual(got, []int{open}) {
		t.Errorf("%v, want %d", got, open)
	}
}

// TestThePortsAreTriedAtOnce: the ports are tried concurrently. If they were tried one after the other, ports that drop
// packets would use up the time of the look.
func TestThePortsAreTriedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		drops := func(ctx context.Context, _, address string) (net.Conn, error) {
			if address != "10.0.0.2:8888" && address != "10.0.0.2:22" {
				periodic.Pause(ctx, dialLimit)
				return nil, errors.New("timeout")
			}
			c, _ := net.Pipe()
			return c, nil
		}
		began := time.Now()
		got := listening(t.Context(), drops, "10.0.0.2", []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 22, 10, 11, 12, 13, 14, 8888, 16})
		if took := time.Since(began); took != dialLimit || !reflect.DeepEqual(got, []int{22, 8888}) {
			t.Errorf("%v after %s", got, took)
		}
	})
}
