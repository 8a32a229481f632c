package devenv

import (
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// Docker returns the address of a Docker engine, in the form of DOCKER_HOST. When
// none answers, one is started, which all test binaries of the machine share and
// which ends with the last of them.
func Docker(t testing.TB) string {
	t.Helper()
	host, err := server.Docker(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return host
}
