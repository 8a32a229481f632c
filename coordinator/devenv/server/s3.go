package server

import (
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"syscall"
	"time"
)

// versitygwVersion is the release of github.com/versity/versitygw (Apache-2.0) that
// serves as the private object store. It is built as a program of its own: its library
// form changes the process's working folder and allows one per process.
const versitygwVersion = "v1.8.0"

// S3Region is the region that private S3 servers sign for.
const S3Region = "us-east-1"

// Loopback is the address of this machine that only it reaches.
const Loopback = "127.0.0.1"

// S3 is a running private S3 server. It keeps what it knows of an object in
// extended attributes, which the file system must have.
type S3 struct {
	*Process
	// Host is the address of this machine at which it listens, and Port the port there.
	Host                 string
	Port                 int
	AccessKey, SecretKey string
}

// Endpoint returns the server's URL.
func (s *S3) Endpoint() string {
	return "http://" + net.JoinHostPort(s.Host, strconv.Itoa(s.Port))
}

// BuildS3 returns the path of the S3 server's program, which the go command builds into
// the cache the first time.
func BuildS3(ctx context.Context) (string, error) {
	return GoInstall(ctx, "github.com/versity/versitygw/cmd/versitygw", versitygwVersion)
}

// StartS3 starts a server, building it first if it is not in the cache. The keys are the
// root credentials, random if empty; host is an address of this machine, [Loopback] unless
// somebody else must reach the server; port 0 is a free one.
func StartS3(ctx context.Context, storage Storage, accessKey, secretKey, host string, port int) (*S3, error) {
	bin, err := BuildS3(ctx)
	if err != nil {
		return nil, err
	}
	p, err := storage.Program("S3")
	if err != nil {
		return nil, err
	}
	objects := filepath.Join(storage.Dir, "objects")
	if err := makePrivate(objects, nil); err != nil {
		return nil, err
	}
	if accessKey == "" || secretKey == "" {
		accessKey, secretKey = "codehub", rand.Text()
	}
	if storage.scratch != "" {
		p.Stop = syscall.SIGKILL
	}
	p.Env = append(p.Env, "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
	// A free port is chosen before the server takes it: another process may be quicker.
	for range 3 {
		s := &S3{Host: host, Port: port, AccessKey: accessKey, SecretKey: secretKey}
		if port == 0 {
			if s.Port, err = FreePort(); err != nil {
				return nil, err
			}
		}
		p.Argv = []string{bin, "--quiet", "--health", "/healthz", "--port", net.JoinHostPort(host, strconv.Itoa(s.Port)), "posix", objects}
		p.Ready = s.ping
		if s.Process, err = Start(p); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func (s *S3) ping() error {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(s.Endpoint() + "/healthz")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("health check answers %s", resp.Status)
	}
	return nil
}
