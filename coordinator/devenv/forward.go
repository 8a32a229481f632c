package devenv

import (
	"net/url"
	"path/filepath"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/faulty"
)

// ForPods returns the addresses at which Pods of the cluster reach a test's database and Redis. The addresses are ports
// of this machine at the host in CODEHUB_TEST_K8S_HOST. dsn and redis come from [PostgreSQL] and [Redis], whose servers
// listen on sockets.
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
	forward := func(socket string) string {
		return faulty.Listen(t, "tcp", storeHost()+":0", "unix://"+socket).Address()
	}
	database := forward(filepath.Join(d.Query().Get("host"), ".s.PGSQL.5432"))
	dsnForPods = "postgres://" + d.Query().Get("user") + "@" + database + d.Path + "?sslmode=disable"
	return dsnForPods, "redis://" + forward(r.Path) + "/0"
}
