package devenv

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// The variables that describe the cluster to `make test-k8s`.
const (
	// kubeconfigEnv names the kubeconfig file of a cluster. If it is set, the tests run on the cluster and not on
	// Docker.
	kubeconfigEnv = "CODEHUB_TEST_KUBECONFIG"
	// loadEnv is a command that brings an image of the Docker engine at DOCKER_HOST to the cluster's nodes. The
	// image's name is its last argument.
	loadEnv = "CODEHUB_TEST_K8S_LOAD"
	// svcEnv and nodeEnv are commands for tests of faults. The first is completed by arguments such as "stop kubelet",
	// the second by a command for the node.
	svcEnv  = "CODEHUB_TEST_K8S_SVC"
	nodeEnv = "CODEHUB_TEST_K8S_IN"
)

// OnKubernetes reports whether the tests of this run use a Kubernetes cluster.
func OnKubernetes() bool { return os.Getenv(kubeconfigEnv) != "" }

// Kubeconfig is the file of the cluster of a run on Kubernetes.
func Kubeconfig() string { return os.Getenv(kubeconfigEnv) }

// Cluster is a namespace of a real Kubernetes cluster.
type Cluster struct {
	// Kubeconfig is a file with an administrator's access.
	Kubeconfig string
	// Namespace is for this test alone, and enforces the Pod Security level that the product promises to keep.
	Namespace string
}

// Kubernetes returns a namespace for this test alone, which is removed at its end with everything in it.
func Kubernetes(t testing.TB) Cluster {
	t.Helper()
	c := Cluster{Kubeconfig: os.Getenv(kubeconfigEnv), Namespace: "test-" + uniqueName()}
	if c.Kubeconfig == "" {
		t.Fatalf("%s is not set; `make test-k8s` sets it", kubeconfigEnv)
	}
	api := c.Inspect(t, "")
	err := api.Do(t.Context(), http.MethodPost, "/api/v1/namespaces", nil, &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: c.Namespace,
			Labels: map[string]string{"pod-security.kubernetes.io/enforce": "baseline"}},
	}, nil)
	if err != nil {
		t.Fatalf("making a namespace: %v", err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Timeout)
		defer cancel()
		err := api.Do(ctx, http.MethodDelete, "/api/v1/namespaces/"+c.Namespace, nil, nil, nil)
		if err != nil && !errors.Is(err, inspect.ErrNotFound) {
			t.Errorf("removing the namespace: %v", err)
		}
		wait.For(t, "its Pods are being deleted", func() error {
			list, err := api.Containers(ctx, "")
			if err == nil && len(list) > 0 {
				err = errors.Join(api.Free(ctx), fmt.Errorf("%d are there", len(list)))
			}
			return err
		})
	})
	wait.For(t, "the namespace has an account for its Pods", func() error {
		return api.Do(t.Context(), http.MethodGet, "/api/v1/namespaces/%s/serviceaccounts/default", nil, nil, nil)
	})
	return c
}

// Inspect returns what an installation has in the namespace.
func (c Cluster) Inspect(t testing.TB, installation string) *inspect.Kubernetes {
	t.Helper()
	k, err := inspect.NewKubernetes(c.Kubeconfig, c.Namespace, installation)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.Close)
	return k
}

// Component stops, starts, kills or restarts a component of the cluster, such as "kubelet". It runs the command that
// the caller of the tests gave for that. If there is no such command, it skips the test, because a test cannot disrupt
// every cluster.
func Component(t testing.TB, action, name string) {
	t.Helper()
	command(t, svcEnv, action+" "+name)
}

// OnNode runs a shell command on the node; it skips the test like [Component].
func OnNode(t testing.TB, line string) {
	t.Helper()
	command(t, nodeEnv, "sh -c '"+line+"'")
}

func command(t testing.TB, variable, rest string) {
	t.Helper()
	if os.Getenv(variable) == "" {
		t.Skipf("%s is not set: this cluster cannot be broken", variable)
	}
	line := os.Getenv(variable) + " " + rest
	// Files instead of pipes: the component that the command starts outlives it.
	if err := exec.Command("sh", "-c", line+" </dev/null >/dev/null 2>&1").Run(); err != nil {
		t.Fatalf("%s: %v", line, err)
	}
}

// loaded are the images that this test binary has brought to the cluster.
var loaded sync.Map

// load brings an image of the engine at host to the cluster's nodes.
func load(t testing.TB, host, ref string) {
	t.Helper()
	line := os.Getenv(loadEnv)
	if line == "" {
		t.Fatalf("%s is not set: give the command that brings an image to the cluster's nodes, such as `kind load "+
			"docker-image`", loadEnv)
	}
	once, _ := loaded.LoadOrStore(ref, sync.OnceValue(func() error {
		cmd := exec.Command("sh", "-c", line+" "+ref)
		cmd.Env = append(os.Environ(), "DOCKER_HOST="+host)
		out, err := cmd.CombinedOutput()
		if err != nil {
			return errors.Join(err, errors.New(string(out)))
		}
		return nil
	}))
	if err := once.(func() error)(); err != nil {
		t.Fatalf("bringing %s to the cluster: %v", ref, err)
	}
}

// Inspect returns what an installation has on the Docker engine at host.
func Inspect(t testing.TB, host, installation string) *inspect.Docker {
	t.Helper()
	var d *inspect.Docker
	d, err := inspect.NewDocker(host, installation,
		func(ctx context.Context) error { return removeInstallation(ctx, d.Client, installation) })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(d.Close)
	return d
}

// storeHost is the address at which the tests' object store listens: in a run on a cluster, Pods must reach it.
func storeHost() string {
	if host := os.Getenv("CODEHUB_TEST_K8S_HOST"); host != "" && OnKubernetes() {
		return host
	}
	return server.Loopback
}

// Clear removes everything that an installation has on its backend, at the end of a test that may have failed. It
// retries, because backends take their time to remove things, and a volume can be removed only after its users.
func Clear(t testing.TB, e inspect.Engine) {
	t.Helper()
	wait.For(t, "everything is removed", func() error {
		ctx, cancel := context.WithTimeout(context.Background(), wait.Timeout)
		defer cancel()
		return e.Remove(ctx)
	})
}
