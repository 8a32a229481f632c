package e2e

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestPodsRemoved: something other than the program deletes a Pod, such as the drain of a node. The Pod disappears by
// itself as soon as nothing in it runs any more, and not before. Files that the workspace writes before that are in the
// home, and in its next archive.
func TestPodsRemoved(t *testing.T) {
	if !devenv.OnKubernetes() {
		t.Skip("what Docker deletes is gone at once; run `make test-k8s`")
	}
	t.Parallel()
	in := install(t, "LIMITS_MAX_RUNNING_PER_USER=100")
	me := in.admin(t)
	for _, tt := range []struct{ name, grace, then string }{
		{"as a drain does", "", "RUNNING"},
		{"by force", "0", "RUNNING"},
		{"as a drain does, and archived at once", "", "ARCHIVED"},
		{"by force, and archived at once", "0", "ARCHIVED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := me.create(t, tt.name).ID
			base := me.enter(t, id)
			written := in.startCounting(t, id)
			removed := in.removePod(t, "ws-"+id, tt.grace)
			if tt.then != "RUNNING" {
				me.setDesiredState(t, id, tt.then)
			}
			in.awaitGone(t, removed)
			seen := written()
			if tt.then == "RUNNING" {
				wait.For(t, "it is started again", func() error { return me.showsTerminal(t, base) })
				if now := in.counter(t, id); now < seen {
					t.Errorf("the home has %d, and %d was written", now, seen)
				}
				me.setDesiredState(t, id, "ARCHIVED")
			}
			me.awaitPhase(t, id, "ARCHIVED")
			if res, body := me.get(t, base+"healthz", program); res.StatusCode != http.StatusOK {
				t.Fatalf("a program at the archived workspace: %s %q", res.Status, body)
			}
			if now := in.counter(t, id); now < seen {
				t.Errorf("the restored home has %d, and %d was written", now, seen)
			}
			t.Logf("it has written up to %d", seen)
		})
	}
	like := in.pod(t, "ws-"+me.create(t, "like an orphan").ID)
	t.Run("of no workspace", func(t *testing.T) {
		in.awaitGone(t, in.removePod(t, in.orphan(t, like), ""))
		in.awaitGone(t, in.removePod(t, in.orphan(t, like), "0"))
	})
	t.Run("without a leader", func(t *testing.T) {
		name := in.orphan(t, like)
		in.kill()
		removed := in.removePod(t, name, "")
		wait.For(t, "it has ended", func() error {
			if p := in.pod(t, name); p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
				return fmt.Errorf("it is %s", p.Status.Phase)
			}
			return nil
		})
		in.start(t)
		in.awaitGone(t, removed)
	})
}

// startCounting starts a process in the workspace that writes one number after the other to a file in the home. The
// process prints each number once it is written, and continues until it is ended. The returned function waits for the
// end of the process and returns the last printed number.
func (in *installation) startCounting(t *testing.T, id string) (written func() int) {
	t.Helper()
	const loop = "n=0; while true; do n=$((n+1)); echo $n >>/home/coder/counter && echo $n; done"
	ended := make(chan []byte, 1)
	go func() {
		out, _ := in.engine.Exec(t.Context(), id, nil, loop) // it is ended with its container
		ended <- out
	}()
	wait.For(t, "the process writes", func() error { _, err := in.readCounter(t, id); return err })
	return func() int {
		t.Helper()
		select {
		case out := <-ended:
			n, err := lastNumber(out)
			if err != nil {
				t.Fatal(err)
			}
			return n
		case <-time.After(wait.Timeout):
			t.Fatal("the process has not ended")
			return 0
		}
	}
}

// counter returns the last number in the workspace's home.
func (in *installation) counter(t *testing.T, id string) (n int) {
	t.Helper()
	wait.For(t, "the counter is read", func() (err error) { n, err = in.readCounter(t, id); return err })
	return n
}

func (in *installation) readCounter(t *testing.T, id string) (int, error) {
	out, err := in.engine.Exec(t.Context(), id, nil, "tail -n 2 /home/coder/counter")
	if err != nil {
		return 0, err
	}
	return lastNumber(out)
}

// lastNumber returns the number in the last complete line: part of another number may follow it.
func lastNumber(lines []byte) (int, error) {
	lines = bytes.TrimSpace(lines[:bytes.LastIndexByte(lines, '\n')+1])
	return strconv.Atoi(string(lines[bytes.LastIndexByte(lines, '\n')+1:]))
}

// orphan makes a Pod like a workspace's, but for a workspace that does not exist, and returns the Pod's name once the
// Pod runs.
func (in *installation) orphan(t *testing.T, like *corev1.Pod) string {
	t.Helper()
	id := uuid.NewString()
	if err := in.engine.MakeVolume(t.Context(), id, "op"); err != nil {
		t.Fatal(err)
	}
	p := &corev1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{
			Name: "ws-" + id, Annotations: like.Annotations, Finalizers: like.Finalizers,
		},
		Spec: *like.Spec.DeepCopy(),
	}
	p.Labels = spec.With(like.Labels, map[string]string{spec.LabelWorkspace: id})
	p.Spec.NodeName = ""
	for i := range p.Spec.Volumes {
		if c := p.Spec.Volumes[i].PersistentVolumeClaim; c != nil {
			c.ClaimName = p.Name + "-home"
		}
	}
	if !slices.Contains(p.Finalizers, spec.Finalizer) {
		t.Fatalf("the Pod of a workspace has the finalizers %q", p.Finalizers)
	}
	if err := in.cluster.Do(t.Context(), http.MethodPost, inspect.PodsPath, nil, p, nil); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "the orphan runs", func() error {
		if phase := in.pod(t, p.Name).Status.Phase; phase != corev1.PodRunning {
			return fmt.Errorf("it is %s", phase)
		}
		return nil
	})
	return p.Name
}

// pod returns the Pod of that name.
func (in *installation) pod(t *testing.T, name string) *corev1.Pod {
	t.Helper()
	p := new(corev1.Pod)
	if err := in.cluster.Do(t.Context(), http.MethodGet, inspect.PodsPath+"/"+name, nil, nil, p); err != nil {
		t.Fatal(err)
	}
	return p
}

// removePod deletes the Pod of that name with a grace period in seconds; "" means the Pod's own. It returns the Pod as
// it was before.
func (in *installation) removePod(t *testing.T, name, grace string) *corev1.Pod {
	t.Helper()
	p, query := in.pod(t, name), url.Values{}
	if grace != "" {
		query.Set("gracePeriodSeconds", grace)
	}
	if err := in.cluster.Do(t.Context(), http.MethodDelete, inspect.PodsPath+"/"+name, query, nil, nil); err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitGone waits until that Pod is gone; another Pod of the same name does not matter.
func (in *installation) awaitGone(t *testing.T, p *corev1.Pod) {
	t.Helper()
	began := time.Now()
	wait.For(t, "the Pod goes by itself", func() error {
		var now corev1.Pod
		err := in.cluster.Do(t.Context(), http.MethodGet, inspect.PodsPath+"/"+p.Name, nil, nil, &now)
		switch {
		case errors.Is(err, inspect.ErrNotFound):
			return nil
		case err == nil && now.UID == p.UID:
			return fmt.Errorf("it is %s: %+v", now.Status.Phase, now.Status.ContainerStatuses)
		}
		return err
	})
	t.Logf("the Pod was gone after %d ms", time.Since(began).Milliseconds())
}
