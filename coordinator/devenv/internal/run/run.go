// Package run is `make run`: CodeHub on this machine, with private servers.
//
// It ends everything that it has started, and nothing else. Data stays in .codehub for the next run. It must not know
// how a server is started or supervised, which is the task of package server.
package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/internal/install"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

const (
	// dataDir keeps everything of the private servers.
	dataDir = ".codehub"
	// database and bucket are the names on private servers.
	databaseName  = "codehub"
	defaultBucket = "codehub"
	// readyLimit is how long Caddy may take to answer.
	readyLimit = 2 * time.Minute
	// caddyGrace is more than the grace period in Caddyfile.example.
	caddyGrace = 30 * time.Second
)

// Run runs CodeHub from the repository in root until ctx or a server that it needs ends. It prints
// its steps to out.
func Run(ctx context.Context, root string, out io.Writer) error {
	begin := time.Now()
	settings, err := readSettings(os.Getenv)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, dataDir)
	// It must be private, even if the build has made it.
	if err := errors.Join(os.MkdirAll(dir, 0o700), os.Chmod(dir, 0o700)); err != nil {
		return fmt.Errorf("making %s: %w", dataDir, err)
	}
	lock, err := server.TryLock(filepath.Join(dir, "lock"))
	if errors.Is(err, server.ErrLocked) {
		return fmt.Errorf("another `make run` is using %s: end it first, or run in another copy of the repository", dir)
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	if err := portFree(settings.port); err != nil {
		return err
	}
	st, err := loadState(dir)
	if err != nil {
		return err
	}
	r := newRunner(root, dir, settings, st, out)
	// Whatever happens, the programs that were started end.
	defer r.servers.stop()
	if err := r.install(ctx); err != nil {
		return err
	}
	if err := r.prepare(ctx); err != nil {
		return err
	}
	return r.serve(ctx, begin)
}

// runner is one run.
type runner struct {
	root, dir string
	settings  settings
	state     state
	servers   *restarter
	// isolated gives a private engine a network namespace of its own.
	isolated bool

	printing sync.Mutex
	out      io.Writer

	// What prepare found out, for Caddy's environment.
	databaseURL, redisURL    string
	s3                       s3Settings
	s3Port                   int // of the private server; 0: there is none
	dockerHost               string
	jobImage, workspaceImage string
	password                 password
}

func newRunner(root, dir string, settings settings, st state, out io.Writer) *runner {
	r := &runner{root: root, dir: dir, settings: settings, state: st, out: out}
	r.servers = &restarter{dir: dir, printf: r.printf}
	return r
}

func (r *runner) printf(format string, args ...any) {
	r.printing.Lock()
	defer r.printing.Unlock()
	fmt.Fprintf(r.out, format, args...)
}

// step runs one of the preparations and prints how long it took.
func (r *runner) step(name string, do func() error) error {
	start := time.Now()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	r.printf("  %-20s %6.1f s\n", name, time.Since(start).Seconds())
	return nil
}

// install installs the programs that the private servers need.
func (r *runner) install(ctx context.Context) error {
	needs := []string{"ca-certificates"}
	if r.settings.database == "" {
		needs = append(needs, "postgresql")
	}
	if r.settings.redis == "" {
		needs = append(needs, "redis-server")
	}
	if _, err := server.AnsweringEngine(ctx); err != nil && r.settings.docker == "" {
		needs = append(needs, "docker.io", "iproute2")
	}
	if r.settings.image == "" {
		needs = append(needs, "busybox-static")
	}
	return install.Ensure(ctx, r.out, needs...)
}

// serve runs Caddy until ctx ends, Caddy ends, or a server ends that cannot be started again.
func (r *runner) serve(ctx context.Context, begin time.Time) error {
	sockets := server.SocketDir(filepath.Join(r.dir, "run", "caddy"))
	decided := r.decided(os.Environ(), "unix/"+filepath.Join(sockets, "admin.sock"))
	environment := filepath.Join(r.dir, environmentFile)
	if err := writeFile(environment, forShell(decided)); err != nil {
		return err
	}
	// The servers named in the file end with this run.
	defer os.Remove(environment)
	caddy, err := server.Start(server.Program{
		Name: "Caddy",
		Argv: []string{filepath.Join(r.root, "caddy"), "run", "--config", "Caddyfile.example", "--adapter",
			"caddyfile"},
		Env:     with(os.Environ(), decided),
		Dir:     r.root,
		Lock:    filepath.Join(r.dir, "caddy.lock"),
		Stale:   []string{sockets},
		Folders: []string{sockets},
		Grace:   caddyGrace,
	})
	if err != nil {
		return err
	}
	defer func() {
		// Stop Caddy first, because it would restart containers that end while it runs.
		if err := caddy.Stop(); err != nil && ctx.Err() != nil {
			r.printf("stopping Caddy: %v\n", err)
		}
		// An engine that is being started again still has the workspaces' containers.
		r.servers.settle()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), caddyGrace)
		defer cancel()
		if err := removeContainers(ctx, r.dockerHost, r.installation()); err != nil {
			r.printf("ending the workspaces: %v\n", err)
		}
		if err := removeRules(ctx, r.dockerHost, r.installation(), r.jobImage); err != nil {
			r.printf("removing the firewall rules: %v\n", err)
		}
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ready, started := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			r.printf("Stopping\n")
			return nil
		case <-tick.C:
		}
		if caddy.Exited() {
			return errors.New("running Caddy: it ended; its messages are above")
		}
		if err := r.servers.check(); err != nil {
			return err
		}
		switch {
		case ready:
		case healthy(r.settings.port):
			ready = true
			r.announce(time.Since(begin))
		case time.Since(started) > readyLimit:
			return fmt.Errorf("waiting for Caddy: it does not answer after %v", readyLimit)
		}
	}
}

// installation is the id that labels this installation's containers and volumes.
func (r *runner) installation() string {
	return cmp.Or(r.settings.installation, r.state.Installation)
}

func (r *runner) announce(took time.Duration) {
	r.printf("\nReady after %.1f s\n\n  Address:    http://localhost:%d\n  User:       admin\n  Password:   %s\n  "+
		"Workspace:  %s\n  Commands:   . %s/%s; ./caddy codehub user add NAME\n\nCtrl-C ends it; the data stays in %s.\n\n",
		took.Seconds(), r.settings.port, r.password.shown, r.workspaceImage, dataDir, environmentFile, dataDir)
}

// decided returns the variables that this run sets in addition to the present ones.
func (r *runner) decided(present []string, admin string) map[string]string {
	own := map[string]string{
		"DATABASE_URL": r.databaseURL, "REDIS_URL": r.redisURL, "DOCKER_HOST": r.dockerHost,
		"S3_ENDPOINT": r.s3.endpoint, "S3_REGION": r.s3.region, "S3_BUCKET": r.s3.bucket,
		"S3_ACCESS_KEY": r.s3.accessKey, "S3_SECRET_KEY": r.s3.secretKey, "S3_PATH_STYLE": r.s3.pathStyle,
		"CODEHUB_HTTP_PORT":       strconv.Itoa(r.settings.port),
		"CODEHUB_ADMIN_PASSWORD":  r.password.told,
		"CODEHUB_WORKSPACE_IMAGE": r.workspaceImage,
		"CODEHUB_JOB_IMAGE":       r.jobImage,
		"CODEHUB_INSTALLATION":    r.installation(),
		"XDG_DATA_HOME":           filepath.Join(r.dir, "caddy", "data"),
		"XDG_CONFIG_HOME":         filepath.Join(r.dir, "caddy", "config"),
		// WebSockets over HTTP/2.
		"GODEBUG": "http2xconnect=1",
	}
	set := func(name string) bool {
		return slices.ContainsFunc(present,
			func(pair string) bool { return strings.HasPrefix(pair, name+"=") && pair != name+"=" })
	}
	if !set("CODEHUB_PUBLIC_URL") && !set("CODEHUB_MAIN_HOST") {
		own["CODEHUB_PUBLIC_URL"] = fmt.Sprintf("http://localhost:%d", r.settings.port)
	}
	if !set("CODEHUB_ADMIN_ADDRESS") {
		own["CODEHUB_ADMIN_ADDRESS"] = admin
	}
	if r.s3Port != 0 && !set("CODEHUB_JOB_S3_ENDPOINT") && !set("CODEHUB_JOB_NETWORK") {
		own["CODEHUB_JOB_NETWORK"] = "host" // where the private S3 server is
	}
	maps.DeleteFunc(own, func(_, value string) bool { return value == "" })
	return own
}

// with returns an environment with more variables.
func with(present []string, more map[string]string) []string {
	env := slices.Clone(present)
	for name, value := range more {
		env = append(env, name+"="+value) // the last one of a name counts
	}
	return env
}

// environmentFile is what a shell reads to run commands on the servers of this run.
const environmentFile = "environment"

// notForCommands are variables that are for Caddy alone, or would affect other programs in the shell.
var notForCommands = []string{"CODEHUB_ADMIN_PASSWORD", "GODEBUG", "XDG_DATA_HOME", "XDG_CONFIG_HOME"}

// forShell returns the content of [environmentFile].
func forShell(variables map[string]string) []byte {
	var text strings.Builder
	fmt.Fprintf(&text, "# The servers of `make run`, while it runs. In the folder of the repository:\n"+
		"#   . %s/%s; ./caddy codehub doctor --config Caddyfile.example --adapter caddyfile\n", dataDir, environmentFile)
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		if !slices.Contains(notForCommands, name) {
			fmt.Fprintf(&text, "export %s='%s'\n", name, strings.ReplaceAll(variables[name], "'", `'\''`))
		}
	}
	return []byte(text.String())
}

// portFree returns an error if Caddy could not listen, so that the user learns of it before anything is started.
func portFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return fmt.Errorf("port %d cannot be used: %w; choose another one: CODEHUB_HTTP_PORT=%d make run", port, err,
			port%65535+1)
	}
	return l.Close()
}

// healthy asks Caddy once.
func healthy(port int) bool {
	client := &http.Client{Timeout: time.Second}
	resp, err := client.Get("http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) + "/health")
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
