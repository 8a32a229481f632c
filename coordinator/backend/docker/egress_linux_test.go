package docker_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"golang.org/x/net/dns/dnsmessage"
	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/docker/doctor"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The addresses in the network of TestEgress. The host's own address in that network is a public one.
const (
	outsideHost    = "203.0.113.1"
	outsidePublic  = "203.0.113.10"
	outsidePrivate = "10.99.0.10"
	outsideData    = "169.254.169.254" // the metadata service of clouds
)

// outside is the world beyond the engine's host: another network namespace, connected to this one, with a web server at
// every address and a name server.
func outside(t *testing.T) {
	t.Helper()
	needRoot(t)
	nameserver := hostNameserver(t)
	ip(t, "link", "add", "choutside0", "type", "veth", "peer", "name", "choutside1")
	t.Cleanup(func() { _ = exec.Command("ip", "link", "delete", "choutside0").Run() })
	type result struct {
		web  []net.Listener
		name net.PacketConn
		err  error
	}
	made, end, thread := make(chan result), make(chan struct{}), make(chan int, 1)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		runtime.LockOSThread() // never unlocked: the thread ends with its namespace
		var r result
		r.err = unix.Unshare(unix.CLONE_NEWNET)
		if r.err == nil {
			r.err = exec.Command("ip", "link", "set", "lo", "up").Run()
		}
		thread <- unix.Gettid() // names its namespace
		made <- r
		<-end // the veth arrives
		for _, c := range [][]string{
			{"link", "set", "choutside1", "up"},
			{"addr", "add", outsidePublic + "/24", "dev", "choutside1"},
			{"addr", "add", outsidePrivate + "/32", "dev", "choutside1"},
			{"addr", "add", outsideData + "/32", "dev", "choutside1"},
			{"addr", "add", nameserver + "/32", "dev", "choutside1"},
			{"route", "add", "default", "via", outsideHost},
		} {
			if out, err := exec.Command("ip", c...).CombinedOutput(); err != nil {
				r.err = errors.Join(r.err, fmt.Errorf("ip %v: %s", c, out))
			}
		}
		for _, a := range []string{outsidePublic, outsidePrivate, outsideData} {
			l, err := net.Listen("tcp", net.JoinHostPort(a, "80"))
			r.err = errors.Join(r.err, err)
			r.web = append(r.web, l)
		}
		var err error
		r.name, err = net.ListenPacket("udp", net.JoinHostPort(nameserver, "53"))
		r.err = errors.Join(r.err, err)
		// This is a web server at the address of the name server. Workspaces may reach only the port for names at that
		// address.
		l, err := net.Listen("tcp", net.JoinHostPort(nameserver, "80"))
		r.err = errors.Join(r.err, err)
		r.web = append(r.web, l)
		made <- r
		<-end
	}()
	if r := <-made; r.err != nil {
		t.Fatal(r.err)
	}
	ip(t, "link", "set", "choutside1", "netns", strconv.Itoa(<-thread))
	ip(t, "addr", "add", outsideHost+"/24", "dev", "choutside0")
	ip(t, "link", "set", "choutside0", "up")
	for _, a := range []string{outsidePrivate, outsideData, nameserver} {
		ip(t, "route", "replace", a+"/32", "via", outsidePublic, "dev", "choutside0", "onlink")
	}
	end <- struct{}{}
	r := <-made
	for _, l := range r.web {
		if l != nil {
			serve(t, l)
		}
	}
	t.Cleanup(func() { close(end); <-ended })
	if r.err != nil {
		t.Fatal(r.err)
	}
	t.Cleanup(func() { r.name.Close() })
	go answerNames(r.name)
}

func ip(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %s", args, out)
	}
}

// serve answers every request.
func serve(t *testing.T, l net.Listener) {
	s := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "reached") })}
	go func() { _ = s.Serve(l) }()
	t.Cleanup(func() { s.Close() })
}

// hostNameserver returns the first name server that the engine asks.
func hostNameserver(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"} {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			address, ok := strings.CutPrefix(lines.Text(), "nameserver ")
			if a, err := netip.ParseAddr(strings.TrimSpace(address)); ok && err == nil && a.Is4() && !a.IsLoopback() {
				return a.String()
			}
		}
	}
	return "8.8.8.8" // the engine's default
}

// answerNames answers every question with the public address.
func answerNames(c net.PacketConn) {
	buf := make([]byte, 1500)
	for {
		n, from, err := c.ReadFrom(buf)
		if err != nil {
			return
		}
		var m dnsmessage.Message
		if m.Unpack(buf[:n]) != nil || len(m.Questions) == 0 {
			continue
		}
		m.Response, m.Additionals = true, nil
		if q := m.Questions[0]; q.Type == dnsmessage.TypeA {
			m.Answers = []dnsmessage.Resource{{
				Header: dnsmessage.ResourceHeader{Name: q.Name, Type: q.Type, Class: q.Class, TTL: 1},
				Body:   &dnsmessage.AResource{A: netip.MustParseAddr(outsidePublic).As4()},
			}}
		}
		if b, err := m.Pack(); err == nil {
			_, _ = c.WriteTo(b, from)
		}
	}
}

// inside runs a command in a container, and returns whether it succeeded and its output.
func (e *engine) inside(t *testing.T, name string, command ...string) (succeeded bool, out string) {
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	made, err := e.api.ContainerExecCreate(ctx, name, container.ExecOptions{Cmd: command, AttachStdout: true, AttachStderr: true, Tty: true})
	if err != nil {
		t.Error(err)
		return false, ""
	}
	at, err := e.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{Tty: true})
	if err != nil {
		t.Error(err)
		return false, ""
	}
	defer at.Close()
	text, err := io.ReadAll(at.Reader)
	check(t, err)
	for { // it has closed its output, and is about to end
		done, err := e.api.ContainerExecInspect(ctx, made.ID)
		if err != nil || !done.Running {
			check(t, err)
			return err == nil && done.ExitCode == 0, string(text)
		}
	}
}

// reaches returns the addresses that can be opened from inside a container. It retries the expected ones: on a busy
// machine, five seconds may be too short.
func (e *engine) reaches(t *testing.T, name string, targets map[string]string, want ...string) (reached []string) {
	t.Helper()
	var mu sync.Mutex
	var tries sync.WaitGroup
	for what, url := range targets {
		try := func() bool {
			ok, out := e.inside(t, name, "timeout", "5", "wget", "-q", "-O", "-", url)
			return ok && out != ""
		}
		tries.Go(func() {
			ok := try()
			for end := time.Now().Add(wait.Timeout); !ok && slices.Contains(want, what) && time.Now().Before(end); {
				ok = try()
			}
			mu.Lock()
			defer mu.Unlock()
			if ok {
				reached = append(reached, what)
			}
		})
	}
	tries.Wait()
	slices.Sort(reached)
	return reached
}

// egressEngine is an engine whose backends use the product's images.
func egressEngine(t *testing.T, egress egress.Options) *engine {
	t.Helper()
	e, image, job := newEngine(t), devenv.TerminalImage(t), devenv.StorageJobImage(t)
	e.change = func(o *docker.Options) { o.Image, o.JobImage, o.Egress = image, job, egress }
	return e
}

func (e *engine) forgetRules(t *testing.T, installation string) {
	o := e.options(installation)
	t.Cleanup(func() { check(t, docker.RemoveEgressRules(context.Background(), o)) })
}

// endpoint is the address at which the gateway reaches a workspace.
func endpoint(t *testing.T, b backend.Backend, id workspace.ID) string {
	t.Helper()
	all, err := b.Containers(t.Context(), id)
	must(t, err)
	return all[id].Endpoint
}

// startTerminal starts a workspace and waits until the gateway can reach it.
func startTerminal(t *testing.T, b backend.Backend, id workspace.ID) {
	t.Helper()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	must(t, b.Start(t.Context(), backend.StartSpec{ID: id}))
	wait.For(t, "the workspace answers", func() error { return healthy(endpoint(t, b, id)) })
}

// healthy makes a request to a workspace as the gateway does.
func healthy(address string) error {
	resp, err := (&http.Client{Timeout: 5 * time.Second}).Get("http://" + address + "/healthz")
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// TestEgress tries from inside a workspace what it can reach, and checks that the gateway reaches the workspace.
// Without rules everything is open except other workspaces.
func TestEgress(t *testing.T) {
	outside(t)
	e := egressEngine(t, egress.Options{Enforce: egress.EnforceOpen})
	installation := backendtest.Installation()
	open := e.New(t, installation)
	e.forgetRules(t, installation)
	one, two := newID(), newID()
	for _, id := range []workspace.ID{one, two} {
		startTerminal(t, open, id)
	}
	other, err := e.api.NetworkCreate(t.Context(), "elsewhere-"+installation, network.CreateOptions{Driver: "bridge"})
	must(t, err)
	t.Cleanup(func() { check(t, e.api.NetworkRemove(context.Background(), other.ID)) })
	foreign, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: devenv.TerminalImage(t)},
		&container.HostConfig{NetworkMode: container.NetworkMode(other.ID)}, nil, nil, "")
	must(t, err)
	t.Cleanup(func() {
		check(t, e.api.ContainerRemove(context.Background(), foreign.ID, container.RemoveOptions{Force: true}))
	})
	must(t, e.api.ContainerStart(t.Context(), foreign.ID, container.StartOptions{}))
	elsewhere, err := e.api.ContainerInspect(t.Context(), foreign.ID)
	must(t, err)
	has := one.ContainerName() // the network
	if box := e.joined(t, one); box != "" {
		has = box
	}
	inspected, err := e.api.ContainerInspect(t.Context(), has)
	must(t, err)
	gateway := ""
	for _, n := range inspected.NetworkSettings.Networks {
		gateway = n.Gateway
	}
	l, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	serve(t, l)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	targets := map[string]string{
		"bridge of the host":         "http://" + net.JoinHostPort(gateway, port),
		"public address of the host": "http://" + net.JoinHostPort(outsideHost, port),
		"private network":            "http://" + outsidePrivate,
		"metadata":                   "http://" + outsideData,
		"web where DNS is":           "http://" + hostNameserver(t),
		"another workspace":          "http://" + endpoint(t, open, two) + "/healthz",
		"another network":            "http://" + net.JoinHostPort(elsewhere.NetworkSettings.Networks["elsewhere-"+installation].IPAddress, "8080") + "/healthz",
		"internet":                   "http://" + outsidePublic,
		"internet by name":           "http://somewhere.example",
	}
	internet := []string{"internet", "internet by name"}
	without := []string{"bridge of the host", "internet", "internet by name", "metadata", "private network", "public address of the host", "web where DNS is"}
	served := func(what string) {
		t.Helper()
		for _, id := range []workspace.ID{one, two} {
			wait.For(t, what+", the gateway reaches a workspace", func() error { return healthy(endpoint(t, open, id)) })
		}
	}
	expect := func(what string, want []string) {
		t.Helper()
		if got := e.reaches(t, one.ContainerName(), targets, want...); !slices.Equal(got, want) {
			t.Errorf("%s, a workspace reaches %q, want %q", what, got, want)
		}
		served(what)
	}
	// Without our rules, the engine keeps networks apart. However, it stops doing so for a moment whenever it creates a
	// network, and other tests create networks.
	unruled := func(what string) {
		t.Helper()
		wait.For(t, what+", a workspace reaches what the engine allows", func() error {
			if got := e.reaches(t, one.ContainerName(), targets, without...); !slices.Equal(got, without) {
				return fmt.Errorf("it reaches %q, want %q", got, without)
			}
			return nil
		})
		served(what)
	}
	unruled("without rules")

	// Rules also apply to running containers.
	closed := egressEngine(t, egress.Options{Enforce: egress.EnforceRequire}).New(t, installation)
	three := newID()
	startTerminal(t, closed, three)
	expect("with rules", internet)
	if got := e.reaches(t, three.ContainerName(), targets, internet...); !slices.Equal(got, internet) {
		t.Errorf("a workspace that was started with rules reaches %q", got)
	}
	if stood, err := closed.KeepIsolated(t.Context()); err != nil || !stood {
		t.Errorf("the rules stood: %v, %v", stood, err)
	}

	allow := egress.Options{
		Enforce: egress.EnforceRequire, Allow: "10.99.0.0/16 " + net.JoinHostPort(outsideHost, port), Deny: outsidePublic,
	}
	allowed := egressEngine(t, allow).New(t, installation)
	if stood, err := allowed.KeepIsolated(t.Context()); err != nil || stood {
		t.Errorf("other rules stood: %v, %v", stood, err)
	}
	expect("with exceptions", []string{"private network", "public address of the host"})

	// An operator checks from a separate container.
	d, err := doctor.New(e.options(installation))
	must(t, err)
	defer d.Close()
	look := func(what string, want int) {
		t.Helper()
		if found, err := d.Reached(t.Context()); err != nil || len(found) != want {
			t.Errorf("%s, the doctor reaches %v, %v", what, found, err)
		}
	}
	look("with rules", 0)

	// An administrator removes them.
	must(t, docker.RemoveEgressRules(t.Context(), e.options(installation)))
	must(t, docker.RemoveEgressRules(t.Context(), e.options(installation)))
	unruled("with rules removed")
	look("with rules removed", 1) // the metadata service
	if stood, err := closed.KeepIsolated(t.Context()); err != nil || stood {
		t.Errorf("removed rules stood: %v, %v", stood, err)
	}
	expect("with rules made again", internet)
	if left, err := closed.Objects(t.Context()); err != nil || slices.ContainsFunc(left, func(o backend.Object) bool { return o.Workspace == "" }) {
		t.Errorf("a helper is left: %+v, %v", left, err)
	}
}

// TestAWorkspaceTakesNoNameOfAServer: the engine's name server tells each workspace the addresses of all others by
// their host names. A workspace that has the name of a server must not hide that server.
func TestAWorkspaceTakesNoNameOfAServer(t *testing.T) {
	outside(t)
	e := egressEngine(t, egress.Options{Enforce: egress.EnforceRequire})
	installation := backendtest.Installation()
	b := e.New(t, installation)
	e.forgetRules(t, installation)
	one, two := newID(), newID()
	must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: two, OpID: "op"}))
	must(t, b.Start(t.Context(), backend.StartSpec{ID: two, Hostname: "git"}))
	startTerminal(t, b, one)
	address, _, err := net.SplitHostPort(endpoint(t, b, two))
	must(t, err)
	found, out := e.inside(t, one.ContainerName(), "nslookup", "git")
	if !found || !strings.Contains(out, outsidePublic) || strings.Contains(out, address) {
		t.Errorf("git is %s, want %s alone", out, outsidePublic)
	}
	if _, out := e.inside(t, two.ContainerName(), "hostname"); !strings.HasPrefix(out, "git.ws-") {
		t.Errorf("it calls itself %s", out)
	}
}

// TestDiskLimitsRefused: the test's engine is on a file system without project quotas. Workspaces must not run there
// without the limits that the settings promise.
func TestDiskLimitsRefused(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	installation := backendtest.Installation()
	plain, id := e.New(t, installation), newID()
	must(t, plain.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	e.change = func(o *docker.Options) { o.DiskBytes, o.HomeBytes = 1<<30, 1<<30 }
	limited := e.New(t, installation)
	if err := limited.Start(t.Context(), backend.StartSpec{ID: id}); err == nil || !strings.Contains(err.Error(), `"docker disk"`) || !strings.Contains(err.Error(), "pquota") {
		t.Errorf("Start: %v", err)
	}
	if e.ContainerExists(t, id) {
		t.Error("the container exists")
	}
	other := newID()
	if err := limited.Provision(t.Context(), backend.VolumeSpec{ID: other, OpID: "op"}); err == nil || !strings.Contains(err.Error(), `"docker home"`) || !strings.Contains(err.Error(), "pquota") {
		t.Errorf("Provision: %v", err)
	}
	if e.VolumeExists(t, other) {
		t.Error("the volume exists")
	}
	for _, limit := range []int64{1 << 30, 0} { // also without a configured limit
		o := e.options(installation)
		o.DiskBytes, o.HomeBytes = limit, limit
		d, err := doctor.New(o)
		must(t, err)
		defer d.Close()
		if err := d.DiskLimit(t.Context()); !errors.Is(err, spec.ErrCannotLimit) || !strings.Contains(err.Error(), "pquota") {
			t.Errorf("the doctor tries a limit of the disk: %v", err)
		}
		if _, err := d.HomeLimit(t.Context()); !errors.Is(err, spec.ErrCannotLimit) || !strings.Contains(err.Error(), "pquota") {
			t.Errorf("the doctor tries a limit of a home: %v", err)
		}
	}
}
