package e2e

import (
	"flag"
	"os"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
)

// onKubernetesToo matches the tests in which the container backend plays a part. A run on Kubernetes without the flag
// -run runs only these. The other tests are about the rest of the product, or about Docker.
const onKubernetesToo = "^Test(Lifecycle|KillDuringStorageJob|IdleTab|DamagedArchive|PodsRemoved)$"

// TestMain chooses the tests of a run on Kubernetes.
func TestMain(m *testing.M) {
	flag.Parse()
	if run := flag.Lookup("test.run"); devenv.OnKubernetes() && run.Value.String() == "" {
		if err := run.Value.Set(onKubernetesToo); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
