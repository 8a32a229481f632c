package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/wait"
)

// The tests in this file break the cluster of `make test-k8s-faults`, one fault after the other. No other test may use
// the cluster at the same time.

// clusterAway is what users see without the API server: running workspaces continue.
var clusterAway = seen{
	dashboard: dashboardShown, api: workspaceListed, open: terminalShown, wake: wakePageShown,
}

// onCluster skips a test about Kubernetes if the tests run on Docker.
func onCluster(t *testing.T) {
	t.Helper()
	if !devenv.OnKubernetes() {
		t.Skip("it needs a Kubernetes cluster: `make test-k8s-faults`")
	}
}

// breaks applies an action to a component of the cluster, and repairs the component when the test has ended.
func (s *scene) breaks(t *testing.T, action, component string) (heal func()) {
	t.Helper()
	broken := true
	heal = func() {
		if broken {
			broken = false
			devenv.Component(t, "start", component)
		}
	}
	t.Cleanup(heal)
	devenv.Component(t, action, component)
	return heal
}

// awaitAPI waits until the cluster's API answers.
func (s *scene) awaitAPI(t *testing.T) {
	t.Helper()
	wait.For(t, "the cluster answers", func() error {
		return s.cluster.Do(t.Context(), http.MethodGet, "/readyz/ping", nil, nil, nil)
	})
}

// single checks that no workspace has two containers that have not ended. It waits until ended containers, such as that
// of a restore job, are removed.
func (s *scene) single(t *testing.T, when string) {
	t.Helper()
	for id := range s.sums {
		wait.For(t, when+" the workspace has one container at most", func() error {
			all, err := s.engine.Containers(t.Context(), id)
			if err != nil {
				t.Fatal(err)
			}
			left := len(all)
			all = slices.DeleteFunc(all, func(c inspect.Container) bool { return c.State == "exited" })
			if len(all) > 1 {
				t.Fatalf("%s the workspace %s has %d containers: %+v", when, id, len(all), all)
			}
			if left > 1 {
				return fmt.Errorf("%d containers of the workspace %s, ended ones with them", left, id)
			}
			return nil
		})
	}
}

// TestClusterAPIServerKilled: the API server is killed, and started again after some time.
func TestClusterAPIServerKilled(t *testing.T) {
	onCluster(t)
	s := play(t)
	heal := s.breaks(t, "kill", "kube-apiserver")
	s.shows(t, "without an API server", clusterAway)
	began := time.Now()
	heal()
	s.awaitAPI(t)
	t.Logf("the API server itself was back after %d ms", time.Since(began).Milliseconds())
	s.recovers(t, "the API server was killed")
	s.single(t, "after the API server was killed")
	s.judges(t, "after the API server was killed")
}

// TestClusterNodeNotReady: the kubelet is stopped. Containers continue, and are served, even when the cluster reports
// the node as not ready. Until the kubelet is back, a workspace that should sleep keeps its home, and a workspace that
// should wake waits.
func TestClusterNodeNotReady(t *testing.T) {
	onCluster(t)
	s := play(t, "TTL_STANDBY_SECONDS=3600") // only this test puts workspaces to sleep
	third := s.me.create(t, "third").ID
	heal := s.breaks(t, "stop", "kubelet")
	began := time.Now()
	s.shows(t, "without a kubelet", clusterAway)
	s.me.setDesiredState(t, third, "STANDBY")
	wait.For(t, "the node is not ready", func() error {
		var nodes corev1.NodeList
		if err := s.cluster.Do(t.Context(), http.MethodGet, "/api/v1/nodes", nil, nil, &nodes); err != nil {
			return err
		}
		for _, n := range nodes.Items {
			for _, c := range n.Status.Conditions {
				if c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue {
					return nil
				}
			}
		}
		return fmt.Errorf("it is ready")
	})
	t.Logf("the cluster has called the node not ready after %d ms", time.Since(began).Milliseconds())
	s.worksOn(t)
	s.shows(t, "on a node that is not ready", clusterAway)
	if w := s.me.workspace(t, s.open); w.Phase != "RUNNING" {
		t.Errorf("on a node that is not ready the open workspace is %s", w.Phase)
	}
	if w := s.me.workspace(t, third); w.Phase == "STANDBY" || !s.hasVolume(t, third) {
		t.Errorf("without a kubelet a workspace went to sleep, which cannot be known: %+v", w)
	}
	for name, id := range map[string]string{"open": s.open, "asleep": s.asleep, "to sleep": third} {
		_, answer := s.me.request(t, http.MethodGet, "/api/v1/workspaces/"+id, nil)
		t.Logf("the API about the workspace that is %s: %s", name, answer)
	}
	began = time.Now()
	heal()
	s.me.awaitPhase(t, third, "STANDBY")
	t.Logf("with the kubelet back the workspace went to sleep after %d ms", time.Since(began).Milliseconds())
	s.recovers(t, "the kubelet was stopped")
	s.single(t, "after the kubelet was stopped")
}

// TestClusterEtcdStopped: the cluster's database stops, and later is slow.
func TestClusterEtcdStopped(t *testing.T) {
	onCluster(t)
	s := play(t)
	signal := func(name string) {
		devenv.OnNode(t, "kill -"+name+" $(pidof etcd)")
	}
	t.Cleanup(func() { signal("CONT") })
	signal("STOP")
	s.shows(t, "while etcd stands still", clusterAway)
	signal("CONT")
	s.recovers(t, "etcd stood still")
	s.single(t, "after etcd stood still")

	slow := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-slow:
				return
			case <-time.After(100 * time.Millisecond):
			}
			signal("STOP")
			<-time.After(400 * time.Millisecond)
			signal("CONT")
		}
	}()
	began := time.Now()
	s.putToSleep(t, "ARCHIVED")
	t.Logf("with a slow etcd the workspace is archived after %d ms", time.Since(began).Milliseconds())
	s.recovers(t, "etcd was slow") // while it still is
	close(slow)
	<-done
	s.single(t, "after etcd was slow")
}

// behindProxy is a scene whose program reaches the cluster through a proxy.
func behindProxy(t *testing.T, settings ...string) (*scene, *faulty.Cluster) {
	t.Helper()
	proxy := faulty.NewCluster(t, devenv.Kubeconfig())
	return play(t, append(settings, "KUBECONFIG="+proxy.Kubeconfig)...), proxy
}

// TestClusterWatchDropped: all connections to the API server end, and the program does not know what happened
// meanwhile.
func TestClusterWatchDropped(t *testing.T) {
	onCluster(t)
	s, proxy := behindProxy(t)
	proxy.Away(true)
	s.shows(t, "without a connection", clusterAway)
	s.stopWork()
	c, err := s.engine.Containers(t.Context(), s.open)
	if err != nil || len(c) != 1 {
		t.Fatalf("the containers of the open workspace: %+v, %v", c, err)
	}
	if err := s.engine.Kill(t.Context(), c[0]); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "it has ended", func() error {
		if state := s.container(t, s.open); state != "exited" {
			return fmt.Errorf("it is %s", state)
		}
		return nil
	})
	began := time.Now()
	proxy.Away(false)
	wait.For(t, "the open workspace is started again", func() error { return s.me.showsTerminal(t, byHost.base(s.installation, s.open)) })
	t.Logf("what ended meanwhile is started again after %d ms", time.Since(began).Milliseconds())
	s.startWork(t)
	s.recovers(t, "the watches were dropped")
	s.single(t, "after the watches were dropped")
}

// TestClusterReplaced: another cluster answers at the same address. The program changes nothing in that cluster. It
// draws no conclusions from finding nothing there, and still serves running workspaces (SPEC 2).
func TestClusterReplaced(t *testing.T) {
	onCluster(t)
	s, proxy := behindProxy(t)
	want := clusterAway
	want.wake = answer{http.StatusBadGateway, "not the one that this server knows"}
	proxy.Replace("00000000-0000-4000-8000-00000000beef")
	s.shows(t, "with another cluster", want)
	if c := proxy.Changes(); len(c) > 0 {
		t.Errorf("the product wanted to change another cluster: %v", c)
	}
	proxy.Replace("")
	s.recovers(t, "another cluster answered")
	s.single(t, "after another cluster answered")
	s.judges(t, "after another cluster answered")
}
