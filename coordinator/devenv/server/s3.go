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

// StartS3 starts a server, versitygw, and builds it first if it is not in the cache. It keeps
// what it knows of an object in extended attributes, which the file system must have. The keys
// are the root credentials, random if empty; host is an address of this machine, [Loopback] unless
// others must reach the server; port 0 is a free one.
func StartS3(ctx context.Context, storage Storage, accessKey, secretKey, host string, port int) (*S3, error) {
	bin, err := buildS3(ctx)
	if err != nil {
		return nil, err
	}
	if accessKey == "" || secretKey == "" {
		accessKey, secretKey = "codehub", rand.Text()
	}
	return startS3(storage, web{name: "S3", host: host, port: port, health: "/healthz"}, accessKey, secretKey,
		func(p *Program, address string) {
			p.Env = append(p.Env, "ROOT_ACCESS_KEY="+accessKey, "ROOT_SECRET_KEY="+secretKey)
			p.Argv = []string{bin, "--quiet", "--health", "/healthz", "--port", address, "posix", objects(storage)}
		})
}

// StartRclone is [StartS3] with a server of another kind: `rclone serve s3` on a folder.
func StartRclone(ctx context.Context, storage Storage) (*S3, error) {
	bin, err := buildRclone(ctx)
	if err != nil {
		return nil, err
	}
	accessKey, secretKey := "codehub", rand.Text()
	return startS3(storage, web{name: "rclone", host: Loopback}, accessKey, secretKey,
		func(p *Program, address string) {
			p.Argv = []string{
				bin, "serve", "s3", "--config", filepath.Join(storage.Dir, "rclone.conf"), "--addr", address,
				"--auth-key", accessKey + "," + secretKey, objects(storage),
			}
		})
}

// objects is the folder of a server's objects.
func objects(storage Storage) string { return filepath.Join(storage.Dir, "objects") }

func startS3(storage Storage, w web, accessKey, secretKey string, serve func(p *Program, address string)) (*S3, error) {
	if err := makePrivate(objects(storage), nil); err != nil {
		return nil, err
	}
	process, url, port, err := startWeb(storage, w, func(p *Program, address string) {
		serve(p, address)
		if storage.scratch != "" {
			p.Stop = syscall.SIGKILL
		}
	})
	if err != nil {
		return nil, err
	}
	return &S3{Process: process, Endpoint: url, Port: port, AccessKey: accessKey, SecretKey: secretKey}, nil
}
