package devenv

import (
	"io"
	"net"
	"net/url"
	"path/filepath"
	"testing"
)

// ForPods returns the addresses of a test's database and Redis as Pods of the cluster reach
// them: at the address CODEHUB_TEST_K8S_HOST of this machine. dsn and redis are what
// [PostgreSQL] and [Redis] return, whose servers listen on sockets.
func ForPods(t testing.TB, dsn, redis string) (dsnForPods, redisForPods string) {
	t.Helper()
	d, err := url.Parse(dsn)
	if err != nil {
		t.Fatal("the database's address cannot be read") // it may hold a password
	}
	r, err := url.Parse(redis)
	if err != nil {
		t.Fatal("the address of Redis cannot be read")
	}
	database := forward(t, filepath.Join(d.Query().Get("host"), ".s.PGSQL.5432"))
	dsnForPods = "postgres://" + d.Query().Get("user") + "@" + database + d.Path + "?sslmode=disable"
	return dsnForPods, "redis://" + forward(t, r.Path) + "/0"
}

// forward leads connections to the socket, until the test ends, and returns where they come
// in.
func forward(t testing.TB, socket string) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", net.JoinHostPort(storeHost(), "0"))
	if err != nil {
		t.Fatalf("listening where Pods reach this machine: %v; CODEHUB_TEST_K8S_HOST says where", err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // the test has ended
			}
			go join(in, socket)
		}
	}()
	return l.Addr().String()
}

// join connects both sides until both have ended.
func join(in net.Conn, socket string) {
	defer in.Close()
	out, err := net.Dial("unix", socket)
	if err != nil {
		return
	}
	defer out.Close()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(out, in)
		_ = out.(*net.UnixConn).CloseWrite()
	}()
	_, _ = io.Copy(in, out)
	_ = in.(*net.TCPConn).CloseWrite()
	<-ended
}
