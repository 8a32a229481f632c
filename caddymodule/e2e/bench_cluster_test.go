package e2e

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/wait"
)

const (
	// clusterRuns is how often a workspace is woken on a cluster, in turn with a raw Pod.
	clusterRuns = 15
	// kubeletPeriod is how often a kubelet looks at its containers. It sees a change that comes right after a look only
	// a period later. So the benchmark starts both the workspace and the raw Pod at random moments of the period.
	kubeletPeriod = time.Second
	// settlesFor is how long a process on a cluster needs to become idle. idlesFor is how long the benchmark then
	// watches the idle process.
	settlesFor = 20 * time.Second
	idlesFor   = time.Minute
)

// BenchmarkClusterWake measures how long a request that wakes its workspace takes. For comparison, it measures how long
// the cluster alone takes for a Pod like the workspace's, from the Pod's creation to its first answer. Both take turns
// in one run. `make bench-k8s` runs it.
func BenchmarkClusterWake(b *testing.B) {
	in := install(b)
	me := in.admin(b)
	id := me.create(b, "woken").ID
	raw := in.rawPod(b, id)
	in.rawOnce(b, raw) // makes and binds its volume
	var ours, bare []time.Duration
	for range clusterRuns {
		me.setDesiredState(b, id, "STANDBY")
		me.awaitPhase(b, id, "STANDBY")
		<-time.After(rand.N(kubeletPeriod))
		bare = append(bare, in.rawOnce(b, raw))
		<-time.After(rand.N(kubeletPeriod))
		ours = append(ours, me.wake(b, id))
	}
	fmt.Printf("wakes %v\nraw   %v\n", ours, bare)
	fmt.Printf("figure k8s_wake_ms %.1f ms\n", milliseconds(middle(ours)))
	fmt.Printf("figure k8s_wake_raw_ms %.1f ms\n", milliseconds(middle(bare)))
	fmt.Printf("figure k8s_wake_overhead_ms %.1f ms\n", milliseconds(middle(ours)-middle(bare)))
	b.ReportMetric(0, "ns/op")
}

// rawPod is a Pod like that of a running workspace, with its own home, as a user without the product would write it.
func (in *installation) rawPod(t testing.TB, id string) *corev1.Pod {
	t.Helper()
	var p corev1.Pod
	if err := in.cluster.Do(t.Context(), http.MethodGet, inspect.PodsPath+"/ws-"+id, nil, nil, &p); err != nil {
		t.Fatal(err)
	}
	if err := in.cluster.MakeVolume(t.Context(), "raw", "raw"); err != nil {
		t.Fatal(err)
	}
	p.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
	p.ObjectMeta = metav1.ObjectMeta{Name: "raw"}
	p.Status, p.Spec.NodeName, p.Spec.SchedulingGates = corev1.PodStatus{}, "", nil
	for _, v := range p.Spec.Volumes {
		if v.PersistentVolumeClaim != nil {
			v.PersistentVolumeClaim.ClaimName = "ws-raw-home"
		}
	}
	return &p
}

// rawOnce makes the Pod, returns the time until its first answer, and removes the Pod.
func (in *installation) rawOnce(t testing.TB, p *corev1.Pod) (took time.Duration) {
	t.Helper()
	began := time.Now()
	if err := in.cluster.Do(t.Context(), http.MethodPost, inspect.PodsPath, nil, p, nil); err != nil {
		t.Fatal(err)
	}
	var now corev1.Pod
	wait.For(t, "the raw Pod has an address", func() error {
		err := in.cluster.Do(t.Context(), http.MethodGet, inspect.PodsPath+"/raw", nil, nil, &now)
		if err == nil && now.Status.PodIP == "" {
			err = errors.New("it has none")
		}
		return err
	})
	wait.For(t, "the raw Pod answers", func() error {
		res, err := http.Get("http://" + net.JoinHostPort(now.Status.PodIP, "8080") + "/healthz")
		if err != nil {
			return err
		}
		defer res.Body.Close()
		_, err = io.ReadFull(res.Body, make([]byte, 1))
		return err
	})
	took = time.Since(began)
	if err := in.cluster.DeletePod(t.Context(), "raw"); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the raw Pod is gone", func() error {
		err := in.cluster.Do(t.Context(), http.MethodGet, inspect.PodsPath+"/raw", nil, nil, nil)
		if errors.Is(err, inspect.ErrNotFound) {
			return nil
		}
		return errors.Join(err, errors.New("it is there"))
	})
	return took
}

// BenchmarkClusterIdle counts the requests that the program sends to the API server in a minute in which nothing
// happens. Watches do not count. That minute does not include the moment, every five minutes, when the leader applies
// the network policies again. `make bench-k8s` runs it.
func BenchmarkClusterIdle(b *testing.B) {
	proxy := faulty.NewCluster(b, devenv.Kubeconfig())
	in := install(b, "KUBECONFIG="+proxy.Kubeconfig)
	me := in.admin(b)
	me.create(b, "running")
	asleep := me.create(b, "asleep").ID
	me.setDesiredState(b, asleep, "STANDBY")
	me.awaitPhase(b, asleep, "STANDBY")
	<-time.After(settlesFor) // a measurement of an idle process has nothing else to wait for
	before := len(proxy.Requests())
	<-time.After(idlesFor)
	calls := proxy.Requests()[before:]
	fmt.Printf("figure k8s_api_calls_per_idle_minute %d calls\n", len(calls))
	for _, c := range calls {
		fmt.Println("  ", c)
	}
	b.ReportMetric(0, "ns/op")
}
