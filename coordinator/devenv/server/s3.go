package server

import (
	"context"
	"crypto/rand"
	"path/filepath"
	"syscall"
)

// S3Region is the region that private S3 servers sign for.
const S3Region = "us-east-1"

// S3 is a running private S3 server.
type S3 struct {
	*Process
	// Endpoint is its URL, and Port the port in that.
	Endpoint             string
	Port                 int
	AccessKey, SecretKey string
}

// StartS3 starts a server, versitygw, and builds it first if it is not in the cache. It keeps an object's metadata in
// extended attributes, which the file system must support. The keys are the root credentials, random if empty. host is
// an address of this machine, [Loopback] unless others must reach the server. Port 0 chooses a free one.
func StartS3(ctx context.Context, storage Storage, accessKey, secretKey, host string, port int) (*S3, error) {
	bin, err := BuildS3(ctx)
	if err != nil {
		return nil, err
	}
	if accessKey == "" || secretKey == "" {
		accessKey, secretKey = "codehub", rand.Text()
	}
	objects := filepath.Join(storage.Dir, "objects")
	if err := makePrivate(objects, nil); err != nil {
		return nil, err
	}
	s := &S3{AccessKey: accessKey, SecretKey: secretKey}
	web := Web{Name: "S3", Host: host, Port: port, Health: "/healthz"}
	s.Process, s.Endpoint, s.Port, err = StartWeb(storage, web, func(p *Program, address string) {
		p.Env = append(p.Env, "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
		p.Argv = []string{bin, "--quiet", "--health", "/healthz", "--port", address, "posix", objects}
		if storage.scratch != "" {
			p.Stop = syscall.SIGKILL
		}
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}
