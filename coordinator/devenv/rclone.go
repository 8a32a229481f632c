package devenv

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// otherStore is the server that all tests of this binary share that look at a second kind.
var otherStore = sync.OnceValues(func() (ObjectStore, error) {
	s, err := server.Scratch(false)
	if err != nil {
		return ObjectStore{}, err
	}
	return startRclone(context.Background(), s)
})

// OtherS3 is [S3] with a store of another kind: `rclone serve s3` on a folder. So the tests
// do not take one store's ways for those of all.
func OtherS3(t testing.TB) ObjectStore {
	t.Helper()
	s, err := otherStore()
	if err != nil {
		t.Fatal(err)
	}
	return s.emptyBucket(t)
}

// startRclone starts a server that ends with this process.
func startRclone(ctx context.Context, storage server.Storage) (ObjectStore, error) {
	bin, err := server.BuildRclone(ctx)
	if err != nil {
		return ObjectStore{}, err
	}
	p, err := storage.Program("rclone")
	if err != nil {
		return ObjectStore{}, err
	}
	port, err := server.FreePort()
	if err != nil {
		return ObjectStore{}, err
	}
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	s := ObjectStore{Endpoint: "http://" + address, Region: server.S3Region, AccessKey: "codehub", SecretKey: rand.Text()}
	p.Argv = []string{
		bin, "serve", "s3", "--config", filepath.Join(storage.Dir, "rclone.conf"), "--addr", address,
		"--auth-key", s.AccessKey + "," + s.SecretKey, filepath.Join(storage.Dir, "objects"),
	}
	p.Stop = syscall.SIGKILL
	p.Ready = func() error {
		client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get(s.Endpoint) // a refusal is an answer
		if err != nil {
			return err
		}
		return resp.Body.Close()
	}
	s.process, err = server.Start(p)
	return s, err
}
