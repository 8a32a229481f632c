package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/devenv/internal/install"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

const (
	// cleanupLimit is how long private servers may take to end after their test has ended.
	cleanupLimit = 30 * time.Second
	// interruptGrace is how long tests may take to end after Ctrl-C.
	interruptGrace = time.Minute
)

// runner runs tests, with env as their environment.
type runner func(ctx context.Context, root string, env, args []string) error

// The commands that run tests in a network namespace.
const (
	commandTest  = "test"
	commandAgain = "test-again"
)

// runners maps each of these commands to the way it runs the tests.
var runners = map[string]runner{commandTest: once, commandAgain: again}

// test runs the tests of a command with everything that they need. It fails if they leave something behind.
//
// The tests, their servers and their Docker engine run in one network namespace, made for them. No other engine of this
// machine is visible there, and the tests reach their containers as on any machine with an engine. Nothing outside the
// namespace can be reached, so test downloads everything first.
func test(ctx context.Context, root, name string, args []string) error {
	if os.Getenv(server.RunEnv) != "" {
		return testHere(ctx, root, name, args)
	}
	needs := []string{"ca-certificates", "postgresql", "redis-server", "busybox-static", "chromium-headless-shell", "tar", "zstd"}
	if slices.Contains(args, "-race") {
		needs = append(needs, "gcc", "libc6-dev") // the race detector needs C
	}
	isolated := os.Getenv("DOCKER_HOST") == ""
	if isolated {
		if err := server.CanStartEngine(); err != nil {
			return fmt.Errorf("%w; or set DOCKER_HOST to the engine that the tests shall use", err)
		}
		needs = append(needs, "docker.io", "iproute2", "e2fsprogs", "xfsprogs") // the latter two make disks that lose their power
	}
	if err := install.Ensure(ctx, os.Stderr, needs...); err != nil {
		return err
	}
	if err := download(ctx, root); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("finding this program: %w", err)
	}
	env, err := environment(root)
	if err != nil {
		return err
	}
	run := strings.ToLower(rand.Text()[:8])
	p := server.Program{
		Name: "the tests", Argv: append([]string{self, name}, args...), Dir: root,
		Env:  append(env, server.RunEnv+"="+run),
		Stop: syscall.SIGINT, Group: true, Grace: interruptGrace,
	}
	if isolated {
		p.Env = append(p.Env, "GOPROXY=off", "GOTOOLCHAIN=local")
		p.Root, p.Contain, p.Network, p.Before = true, true, true, "ip link set lo up"
		if os.Getuid() != 0 {
			groups, err := os.Getgroups()
			if err != nil {
				return fmt.Errorf("asking for this user's groups: %w", err)
			}
			p.Credential = &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
			for _, g := range groups {
				p.Credential.Groups = append(p.Credential.Groups, uint32(g))
			}
		}
	}
	process, err := server.Start(p)
	if err != nil {
		return err
	}
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !process.Exited() {
		select {
		case <-ctx.Done():
			return errors.Join(errors.New("interrupted"), process.Stop())
		case <-tick.C:
		}
	}
	if process.ExitCode() != 0 {
		return errors.New("the tests failed")
	}
	return nil
}

// asked matches the variables that the example's Caddyfile reads.
var asked = regexp.MustCompile(`\{(?:env\.|\$)(\w+)`)

// environment returns this program's environment for the tests. It leaves out the variables that the settings and the
// clients of PostgreSQL and S3 read: variables for `make run`, for example, must not reach the tests. The variables for
// the engine and the cluster stay, because they are settings of this program.
func environment(root string) ([]string, error) {
	example, err := os.ReadFile(filepath.Join(root, "Caddyfile.example"))
	if err != nil {
		return nil, fmt.Errorf("reading which variables are settings: %w", err)
	}
	settings := make(map[string]bool)
	for _, m := range asked.FindAllSubmatch(example, -1) {
		settings[string(m[1])] = true
	}
	return slices.DeleteFunc(os.Environ(), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		if name == "DOCKER_HOST" || name == "KUBECONFIG" {
			return false
		}
		return settings[name] || strings.HasPrefix(name, "PG") || strings.HasPrefix(name, "AWS_")
	}), nil
}

// download gets everything that the tests need from the network.
func download(ctx context.Context, root string) error {
	if err := server.BuildAll(ctx); err != nil {
		return err
	}
	cmd := command(ctx, root, "go", "list", "-deps", "-test", "./...")
	cmd.Stdout = nil
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("downloading modules: %w", err)
	}
	return nil
}

// testHere is [test] in the namespace of the tests. It starts their engine there, unless
// DOCKER_HOST names another.
func testHere(ctx context.Context, root, name string, args []string) error {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		return testOn(ctx, root, host, os.Getenv(server.RunEnv), name, args)
	}
	s, err := server.Scratch(false)
	if err != nil {
		return err
	}
	engine, err := server.StartEngine(s, false)
	if err != nil {
		return err
	}
	return errors.Join(testOn(ctx, root, engine.Host, "", name, args), engine.Stop())
}

// testOn runs the tests and looks for their remains. On a shared engine, these are all things that belong to this run;
// on the tests' own engine, everything counts.
func testOn(ctx context.Context, root, host, run, name string, args []string) error {
	before, err := things(ctx, host, run)
	if err != nil {
		return err
	}
	tested := runners[name](ctx, root, append(os.Environ(), "DOCKER_HOST="+host), args)
	if ctx.Err() != nil {
		return tested
	}
	left, err := leftovers(ctx, host, run, before)
	if err == nil && len(left) > 0 {
		err = fmt.Errorf("the tests left behind: %s", strings.Join(left, ", "))
	}
	if err != nil {
		return fmt.Errorf("after the tests: %w", err) // whatever they said themselves
	}
	return tested
}

// once runs `go test` with these arguments, and prints what took longest at the end.
func once(ctx context.Context, root string, env, args []string) error {
	tool, err := server.BuildGotestsum(ctx)
	if err != nil {
		return err
	}
	times, err := os.CreateTemp("", "codehub-times-")
	if err != nil {
		return fmt.Errorf("making a file for how long the tests take: %w", err)
	}
	defer os.Remove(times.Name())
	defer times.Close()
	cmd := goTest(ctx, root, tool, times.Name(), args)
	cmd.Env = env
	tested := cmd.Run()
	return errors.Join(tested, printSlowest(os.Stdout, times))
}

// goTest is `go test`, whose output ends with the failed tests. The file times records the end of each test and
// package. gotestsum would not show the results of benchmarks, so they run without it.
func goTest(ctx context.Context, root, tool, times string, args []string) *exec.Cmd {
	if slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(strings.TrimLeft(a, "-"), "bench") }) {
		return command(ctx, root, "go", append([]string{"test"}, args...)...)
	}
	format := "pkgname"
	if slices.Contains(args, "-v") {
		format = "standard-verbose"
	}
	return command(ctx, root, tool, append([]string{"--format", format, "--hide-summary", "skipped",
		"--jsonfile-timing-events", times, "--"}, args...)...)
}

// leftovers lists new things that do not go away.
func leftovers(ctx context.Context, host, run string, before []string) ([]string, error) {
	for deadline := time.Now().Add(cleanupLimit); ; time.Sleep(100 * time.Millisecond) {
		after, err := things(ctx, host, run)
		left := slices.DeleteFunc(after, func(name string) bool { return slices.Contains(before, name) })
		if err != nil || len(left) == 0 || time.Now().After(deadline) {
			return left, err
		}
	}
}

// things lists what tests could leave behind: containers and volumes that are labelled with the run, and the folders of
// private servers. Such a folder exists as long as its server's processes.
func things(ctx context.Context, host, run string) ([]string, error) {
	found, err := server.ScratchFolders(os.Getenv(server.RunEnv))
	if err != nil {
		return nil, err
	}
	api, err := server.EngineClient(host)
	if err != nil {
		return nil, err
	}
	defer api.Close()
	containers, volumes, err := server.FindInstallation(ctx, api, "")
	if err != nil {
		return nil, fmt.Errorf("asking the Docker engine what is left: %w", err)
	}
	for _, c := range containers {
		if strings.Contains(c.Labels[spec.LabelInstallation], run) {
			found = append(found, fmt.Sprintf("container %s, a %s of %s", strings.Join(c.Names, " "),
				cmp.Or(c.Labels[spec.LabelKind], "thing"), c.Labels[spec.LabelInstallation]))
		}
	}
	for _, v := range volumes {
		if strings.Contains(v.Labels[spec.LabelInstallation], run) {
			found = append(found, "volume "+v.Name)
		}
	}
	return found, nil
}
