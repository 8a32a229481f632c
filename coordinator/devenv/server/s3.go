package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// versitygwVersion is the release of github.com/versity/versitygw (Apache-2.0) that
// serves as the private object store. It is built as a program of its own: its
// library form changes the process's working folder and allows one per process.
const versitygwVersion = "v1.8.0"

// S3Region is the region that private S3 servers sign for.
const S3Region = "us-east-1"

// S3 is a running private S3 server, on loopback.
type S3 struct {
	*Guard
	// Endpoint is the server's URL.
	Endpoint             string
	AccessKey, SecretKey string
	// Port is the port of every address that the server listens on.
	Port int
}

// S3Options says how an S3 server is started.
type S3Options struct {
	// Dir keeps the objects; empty for a scratch server, which is gone with the
	// process that started it.
	Dir string
	// AccessKey and SecretKey are the root credentials; random when empty.
	AccessKey, SecretKey string
	// Also lists IP addresses to listen on besides loopback, with the same port:
	// the address under which containers of a bridge network find the host.
	Also []string
	// Port is the port to listen on, when clients know one from before; 0: a free one.
	Port int
}

// StartS3 starts a server, building it first if it is not in the cache.
func StartS3(ctx context.Context, o S3Options) (*S3, error) {
	bin, err := BuildS3(ctx)
	if err != nil {
		return nil, err
	}
	if o.AccessKey == "" || o.SecretKey == "" {
		o.AccessKey, o.SecretKey = "codehub", rand.Text()
	}
	// The port is chosen before the server takes it; on the rare loss of that race,
	// choose another.
	for attempt := 1; ; attempt++ {
		s, err := startS3(bin, o)
		if err == nil || attempt == 3 {
			return s, err
		}
	}
}

func startS3(bin string, o S3Options) (*S3, error) {
	spec := guardSpec{Stop: syscall.SIGTERM}
	var keep []*os.File
	if o.Dir == "" {
		scratch, err := newXattrScratch()
		if err != nil {
			return nil, err
		}
		o.Dir = scratch.Dir
		spec.Remove, spec.Stop = []string{scratch.Dir}, syscall.SIGKILL
		keep = append(keep, scratch.lock)
		defer scratch.lock.Close() // the guard gets its own copy
	}
	objects := filepath.Join(o.Dir, "objects")
	if err := makePrivate(objects); err != nil {
		return nil, err
	}
	if err := checkXattr(objects); err != nil {
		return nil, err
	}
	port, err := choosePort(o)
	if err != nil {
		return nil, err
	}
	s := &S3{Endpoint: s3Endpoint(port), Port: port, AccessKey: o.AccessKey, SecretKey: o.SecretKey}
	spec.Argv = []string{bin, "--quiet", "--health", "/healthz"}
	for _, ip := range append([]string{"127.0.0.1"}, o.Also...) {
		spec.Argv = append(spec.Argv, "--port", net.JoinHostPort(ip, strconv.Itoa(port)))
	}
	spec.Argv = append(spec.Argv, "posix", objects)
	spec.Env = []string{"ROOT_ACCESS_KEY=" + o.AccessKey, "ROOT_SECRET_KEY=" + o.SecretKey, "PATH=/usr/bin:/bin", "HOME=" + o.Dir}
	spec.Log = filepath.Join(o.Dir, "s3.log")
	s.Guard, err = startGuard(spec, keep...)
	if err != nil {
		return nil, err
	}
	if err := s.await("the S3 server", startLimit, func() error { return pingS3(s.Endpoint) }); err != nil {
		for _, dir := range spec.Remove {
			_ = os.RemoveAll(dir)
		}
		return nil, err
	}
	return s, nil
}

func s3Endpoint(port int) string {
	return "http://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// pingS3 asks a server whether it serves.
func pingS3(endpoint string) error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(endpoint + "/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health check answers %s", resp.Status)
	}
	return nil
}

// BuildS3 returns the path of the S3 server's binary, which the go command builds
// into the cache the first time.
func BuildS3(ctx context.Context) (string, error) {
	return GoInstall(ctx, "github.com/versity/versitygw/cmd/versitygw", versitygwVersion)
}

// GoInstall builds a program of another module into the cache, once, however many
// processes ask at the same time.
func GoInstall(ctx context.Context, pkg, version string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	dir, name := filepath.Join(cache, "bin"), filepath.Base(pkg)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("making the folder for built programs: %w", err)
	}
	path := filepath.Join(dir, name+"-"+version)
	if isExecutable(path) {
		return path, nil
	}
	lock, err := Lock(path + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if isExecutable(path) {
		return path, nil
	}
	tmp, err := os.MkdirTemp(dir, "build-")
	if err != nil {
		return "", fmt.Errorf("making a build folder: %w", err)
	}
	defer os.RemoveAll(tmp)
	cmd := exec.CommandContext(ctx, "go", "install", "-trimpath", pkg+"@"+version)
	cmd.Dir = tmp // outside our module, whose versions must not matter
	cmd.Env = append(os.Environ(), "GOBIN="+tmp, "GOFLAGS=", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s %s: %w\n%s", name, version, err, strings.TrimSpace(string(out)))
	}
	if err := os.Rename(filepath.Join(tmp, name), path); err != nil {
		return "", fmt.Errorf("keeping the built %s: %w", name, err)
	}
	return path, nil
}

// newXattrScratch makes a scratch folder with extended attributes, in which the S3
// server keeps what it knows of an object. Memory file systems of older kernels
// have none.
func newXattrScratch() (*Scratch, error) {
	scratch, err := NewScratch()
	if err != nil {
		return nil, err
	}
	if checkXattr(scratch.Dir) == nil {
		return scratch, nil
	}
	scratch.Remove()
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	return newScratchIn(filepath.Join(cache, "scratch"))
}

// checkXattr returns an error when dir's file system has no user attributes.
func checkXattr(dir string) error {
	const name = "user.codehub.probe"
	if err := unix.Setxattr(dir, name, []byte("1"), 0); err != nil {
		return fmt.Errorf("the file system of %s has no user attributes (xattr), which the private S3 server needs: %w", dir, err)
	}
	_ = unix.Removexattr(dir, name)
	return nil
}

// choosePort returns the port that is wanted, once nobody serves there any more, or a
// free one.
func choosePort(o S3Options) (int, error) {
	if o.Port == 0 {
		return freePort(o.Also)
	}
	return o.Port, awaitSilence("the S3 server", func() error { return pingS3(s3Endpoint(o.Port)) })
}

// freePort returns a port that is free on loopback and on the other addresses.
func freePort(also []string) (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, fmt.Errorf("looking for a free port: %w", err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for _, ip := range also {
		other, err := net.Listen("tcp", net.JoinHostPort(ip, strconv.Itoa(port)))
		if err != nil {
			return 0, fmt.Errorf("looking for a free port on %s: %w", ip, err)
		}
		other.Close()
	}
	return port, nil
}
