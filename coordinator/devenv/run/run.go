// Package run is `make run`: CodeHub on this machine, with private servers.
//
// Everything that it starts it also ends, and nothing else. Data lives in .codehub
// and is there again next time.
package run

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/install"
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
	// remindEvery is how often steps that take long are named.
	remindEvery = 10 * time.Second
	// caddyGrace is more than the grace period in Caddyfile.example.
	caddyGrace = 30 * time.Second
)

// Run runs CodeHub from the repository in root until ctx ends, or something that it
// needs does. It prints what it does to out.
func Run(ctx context.Context, root string, out io.Writer) error {
	begin := time.Now()
	settings, err := readSettings(os.Getenv)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, dataDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making %s: %w", dataDir, err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { // also when the build has made it
		return fmt.Errorf("making %s private: %w", dataDir, err)
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
	p := &progress{out: out}
	r := &runner{root: root, dir: dir, settings: settings, state: st, progress: p, servers: &keeper{dir: dir, progress: p}}
	// Whatever happens below, what was started ends.
	defer r.servers.stop()
	reminding, enough := context.WithCancel(ctx)
	defer enough()
	go r.progress.remind(reminding, remindEvery)
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
	progress  *progress
	servers   *keeper

	// What prepare found out, for Caddy's environment.
	databaseURL, redisURL    string
	s3                       s3Settings
	s3Port                   int // of the private server; 0: there is none
	dockerHost               string
	reach                    reach
	jobImage, workspaceImage string
	password                 password
}

// install installs the programs that the private servers need.
func (r *runner) install(ctx context.Context) error {
	needs := []install.Need{install.Authority}
	if r.settings.database == "" {
		needs = append(needs, install.PostgreSQL)
	}
	if r.settings.redis == "" {
		needs = append(needs, install.Redis)
	}
	if r.settings.docker == "" {
		needs = append(needs, install.Docker)
	}
	if r.settings.image == "" {
		needs = append(needs, install.Busybox)
	}
	var log bytes.Buffer
	if !slices.ContainsFunc(needs, func(n install.Need) bool { return n.Missing() }) {
		return nil
	}
	r.progress.printf("Installing what is missing\n")
	err := r.progress.step("packages", func() (string, error) { return "", install.Ensure(ctx, &log, needs...) })
	var manual *install.ManualError
	if err != nil && !errors.As(err, &manual) {
		r.progress.printf("%s", log.String())
	}
	return err
}

// serve runs Caddy until ctx ends, Caddy does, or a server ends for good.
func (r *runner) serve(ctx context.Context, begin time.Time) error {
	sockets, err := server.SocketDir(filepath.Join(r.dir, "run", "caddy"))
	if err != nil {
		return err
	}
	// A socket of a killed Caddy would be in the way.
	defer os.RemoveAll(sockets)
	if err := os.RemoveAll(filepath.Join(sockets, "admin.sock")); err != nil {
		return fmt.Errorf("removing an old socket: %w", err)
	}
	caddy, err := server.Start(server.Program{
		Argv:  []string{filepath.Join(r.root, "caddy"), "run", "--config", "Caddyfile.example", "--adapter", "caddyfile"},
		Env:   r.environment(os.Environ(), "unix/"+filepath.Join(sockets, "admin.sock")),
		Dir:   r.root,
		Grace: caddyGrace,
	})
	if err != nil {
		return err
	}
	defer func() {
		// Caddy first: it would start again what ends under it.
		if err := caddy.Stop(); err != nil && ctx.Err() != nil {
			r.progress.printf("stopping Caddy: %v\n", err)
		}
		// An engine that is just being started again has the workspaces' containers.
		r.servers.settle()
		if err := r.removeContainers(context.WithoutCancel(ctx)); err != nil {
			r.progress.printf("ending the workspaces: %v\n", err)
		}
	}()
	// The kernel tells about ended children; the ticker is for a lost signal and for
	// asking Caddy whether it is ready.
	children := make(chan os.Signal, 1)
	signal.Notify(children, syscall.SIGCHLD)
	defer signal.Stop(children)
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	ready, started := false, time.Now()
	for {
		select {
		case <-ctx.Done():
			r.progress.printf("Stopping\n")
			return nil
		case <-children:
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
		case healthy(ctx, r.settings.port):
			ready = true
			tick.Reset(time.Second)
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

// removeContainers removes the containers of this installation. Their volumes stay,
// so that the next run starts the workspaces again.
func (r *runner) removeContainers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, caddyGrace)
	defer cancel()
	e, err := connectEngine(r.dockerHost)
	if err != nil {
		return err
	}
	defer e.api.Close()
	return e.removeContainers(ctx, r.installation())
}

func (r *runner) announce(took time.Duration) {
	users := ""
	if r.settings.database == "" {
		// There is no password in this address. Its escaped parts hold no quote.
		users = fmt.Sprintf("  More users: DATABASE_URL='%s' ./caddy codehub user add NAME\n", r.databaseURL)
	}
	r.progress.printf("\nReady after %.1f s\n\n  Address:    http://localhost:%d\n  User:       admin\n  Password:   %s\n  Workspace:  %s\n%s\nCtrl-C ends it; the data stays in %s.\n\n",
		took.Seconds(), r.settings.port, r.password.shown, r.workspaceImage, users, dataDir)
}

// environment is what Caddy runs with: the present environment, and what this run
// decided.
func (r *runner) environment(present []string, admin string) []string {
	own := map[string]string{
		"DATABASE_URL": r.databaseURL, "REDIS_URL": r.redisURL, "DOCKER_HOST": r.dockerHost,
		"S3_ENDPOINT": r.s3.endpoint, "S3_REGION": r.s3.region, "S3_BUCKET": r.s3.bucket,
		"S3_ACCESS_KEY": r.s3.accessKey, "S3_SECRET_KEY": r.s3.secretKey, "S3_PATH_STYLE": r.s3.pathStyle,
		"CODEHUB_HTTP_PORT":       strconv.Itoa(r.settings.port),
		"CODEHUB_ADMIN_PASSWORD":  r.password.told,
		"CODEHUB_WORKSPACE_IMAGE": r.workspaceImage,
		"CODEHUB_JOB_IMAGE":       r.jobImage,
		"CODEHUB_INSTALLATION":    r.installation(),
		"CODEHUB_PUBLISH":         cmp.Or(r.settings.publish, r.reach.publish),
		"XDG_DATA_HOME":           filepath.Join(r.dir, "caddy", "data"),
		"XDG_CONFIG_HOME":         filepath.Join(r.dir, "caddy", "config"),
		// WebSockets over HTTP/2.
		"GODEBUG": "http2xconnect=1",
	}
	if r.s3Port != 0 && r.settings.jobEndpoint == "" {
		if r.reach.jobHost != "" {
			own["CODEHUB_JOB_S3_ENDPOINT"] = "http://" + net.JoinHostPort(r.reach.jobHost, strconv.Itoa(r.s3Port))
		} else if r.settings.jobNetwork == "" {
			own["CODEHUB_JOB_NETWORK"] = r.reach.jobNetwork
		}
	}
	var env []string
	taken := false
	for _, pair := range present {
		name, _, _ := strings.Cut(pair, "=")
		taken = taken || name == "CODEHUB_ADMIN_ADDRESS"
		if _, replaced := own[name]; !replaced {
			env = append(env, pair)
		}
	}
	if !taken {
		own["CODEHUB_ADMIN_ADDRESS"] = admin
	}
	for name, value := range own {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	slices.Sort(env)
	return env
}

// portFree tells, before anything is started, that Caddy could not listen.
func portFree(port int) error {
	l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("port %d is taken; choose another one: CODEHUB_HTTP_PORT=%d make run", port, port%65535+1)
	}
	if err != nil {
		return fmt.Errorf("trying port %d: %w", port, err)
	}
	return l.Close()
}

// healthy asks Caddy once.
func healthy(ctx context.Context, port int) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+net.JoinHostPort("127.0.0.1", strconv.Itoa(port))+"/health", nil)
	if err != nil {
		return false
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return false
	}
	resp.Body.Close()
	return resp.StatusCode == http.StatusOK
}
