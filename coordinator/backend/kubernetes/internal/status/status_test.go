package status_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/status"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// objects are recorded from a cluster of version 1.34, without fields that nothing reads.
type objects struct {
	Pods   map[string]*corev1.Pod
	Claims map[string]*corev1.PersistentVolumeClaim
	Jobs   map[string]*batchv1.Job
}

func real(t *testing.T) (o objects) {
	t.Helper()
	text, err := os.ReadFile("testdata/objects.json")
	if err == nil {
		err = json.Unmarshal(text, &o)
	}
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// lose changes the Pod as the node controller changes the Pods of a node that no longer reports.
func lose(p *corev1.Pod) {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			c.Status = corev1.ConditionFalse
		}
	}
}

// removed changes the Pod as PodGC changes the Pods of a node whose Node object is missing.
func removed(p *corev1.Pod) {
	p.Status.Phase = corev1.PodFailed
	disrupted(p, "DeletionByPodGC")
	deletedNow(p)
}

// deletedNow marks the Pod as deleted, with a grace period that has ended.
func deletedNow(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: p.CreationTimestamp.Time}, new(int64)
}

func disrupted(p *corev1.Pod, reason string) {
	p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: reason})
}

func terminated(p *corev1.Pod, reason string, code int32) {
	p.Status.Phase = corev1.PodFailed
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{Reason: reason, ExitCode: code}}
}

// disrupts are the ends of TestContainer that were caused from outside. A container counts as having ended by itself if
// it exceeded its own limits, did not start, or exited with a code.
var disrupts = map[string]bool{
	"a node without room": true, "refused by its node": true, "drained, and ended": true, "its node was back": true, "kept by us": true,
	"kept by a finalizer": true, "its node is tainted": true, "displaced": true, "its node shut down": true, "its node forgot it": true,
	"deleted by force": true, "deleted when it had ended": false, "evicted": false, "out of memory": false, "exit code 3": false,
}

// TestContainer checks the state of the container, and what it waits for, with Pods that were recorded on a real
// cluster.
func TestContainer(t *testing.T) {
	type want struct {
		runs    string // "ready", "starting", "unhealthy", "ended" or "not started"
		pending string // the reason
		says    string // in the message, or in the cause of its end
		fails   workspace.ErrorReason
		code    int
	}
	for name, c := range map[string]struct {
		from   string
		change func(*corev1.Pod)
		want   want
	}{
		"running":                   {"running", nil, want{runs: "ready"}},
		"a probe fails":             {"not-ready", nil, want{runs: "starting"}},
		"a probe fails again":       {"turned-unready", nil, want{runs: "unhealthy"}},
		"a startup probe fails":     {"startup", nil, want{runs: "starting"}},
		"another container is late": {"sidecar-unready", nil, want{runs: "starting"}},
		"no address yet":            {"running", func(p *corev1.Pod) { p.Status.PodIP = "" }, want{}},
		"behind the gate":           {"gated", nil, want{runs: "not started"}},
		"behind another gate":       {"foreign-gate", nil, want{"starting", workspace.WaitUnschedulable, "scheduling gate that something else", "", 0}},
		"behind no gate any more": {"foreign-gate", func(p *corev1.Pod) { p.Spec.SchedulingGates = nil },
			want{"starting", workspace.WaitUnschedulable, "not looked for a node yet", "", 0}},
		"behind the gate, and going": {"gated", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, want{"starting", workspace.WaitTerminating, "as soon as the cluster gets to it", "", 0}},

		"no node looked for":  {"too-large", func(p *corev1.Pod) { p.Status.Conditions = nil }, want{"starting", workspace.WaitUnschedulable, "kube-scheduler", "", 0}},
		"too large":           {"too-large", nil, want{"starting", workspace.WaitUnschedulable, "of 1 nodes: 1 with too little memory left", "", 0}},
		"a node selector":     {"node-selector", nil, want{"starting", workspace.WaitUnschedulable, "1 that the node selector of the settings leaves out", "", 0}},
		"no claim":            {"no-claim", nil, want{"starting", workspace.WaitVolume, "does not exist", "", 0}},
		"a claim not bound":   {"claim-unbound", nil, want{"starting", workspace.WaitVolume, "storage class creates none", "", 0}},
		"no provisioner":      {"claim-no-class", nil, want{"starting", workspace.WaitVolume, "storage class creates none", "", 0}},
		"volume on no node":   {"volume-elsewhere", nil, want{"starting", workspace.WaitVolume, "no node of the cluster can reach its home volume", "", 0}},
		"not begun":           {"mount-fails", func(p *corev1.Pod) { p.Status.Conditions, p.Status.ContainerStatuses = nil, nil }, want{"starting", workspace.WaitContainer, "has not started", "", 0}},
		"volumes and network": {"mount-fails", nil, want{"starting", workspace.WaitVolume, "kubectl describe pod ws-", "", 0}},
		"no sandbox":          {"root", nil, want{"starting", workspace.WaitVolume, "network", "", 0}},

		"an image is fetched":          {"mount-fails", func(p *corev1.Pod) { ready(p, corev1.PodReadyToStartContainers) }, want{"starting", workspace.WaitPullingImage, "pulls the image", "", 0}},
		"the registry does not answer": {"image-absent", nil, want{"starting", workspace.WaitPullingImage, "check that it reaches the registry: failed to pull", "", 0}},
		"the registry is broken":       {"registry-broken", nil, want{"starting", workspace.WaitPullingImage, "500 Internal Server Error", "", 0}},
		"no such image":                {"registry-absent", nil, want{"starting", workspace.WaitPullingImage, "does not have the image 127.0.0.1:5999/absent/image:1", workspace.ReasonImagePullFailed, 0}},
		"no such image, at first":      {"registry-absent", firstTry, want{"starting", workspace.WaitPullingImage, "does not have the image", "", 0}},
		"forbidden":                    {"registry-denied", nil, want{"starting", workspace.WaitPullingImage, "pull secrets", workspace.ReasonImagePullFailed, 0}},
		"unauthorized":                 {"registry-unauth", nil, want{"starting", workspace.WaitPullingImage, "pull secrets", workspace.ReasonImagePullFailed, 0}},
		"an old node gives no cause":   {"registry-absent", noCause, want{"starting", workspace.WaitPullingImage, "cannot pull the image", "", 0}},
		"fetching is forbidden":        {"image-never", nil, want{"starting", workspace.WaitPullingImage, "forbids pulling it", workspace.ReasonImagePullFailed, 0}},
		"no name of an image":          {"image-name", nil, want{"starting", workspace.WaitPullingImage, `"Not/A/Valid:Name:1" is not the name`, workspace.ReasonImagePullFailed, 0}},
		"a Secret is missing":          {"no-secret", nil, want{"starting", workspace.WaitContainer, "Pod template", workspace.ReasonActionFailed, 0}},
		"the image runs as root":       {"no-secret", saying("CreateContainerConfigError", `container has runAsNonRoot and image will run as root (pod: "x", container: workspace)`), want{"starting", workspace.WaitContainer, "runs as root", workspace.ReasonActionFailed, 0}},
		"the image names its user":     {"no-secret", saying("CreateContainerConfigError", `container has runAsNonRoot and image has non-numeric user (coder), cannot verify`), want{"starting", workspace.WaitContainer, "user name and no number", workspace.ReasonActionFailed, 0}},
		"a Secret is not read yet":     {"no-secret", saying("CreateContainerConfigError", "failed to sync secret cache: timed out waiting for the condition"), want{"starting", workspace.WaitContainer, "timed out", "", 0}},
		"a folder of the home is a link": {"no-secret", func(p *corev1.Pod) {
			mountsFolder(p)
			saying("CreateContainerConfigError", `failed to prepare subPath for volumeMount "home" of container "workspace"`)(p)
		}, want{"starting", workspace.WaitContainer, "/home/coder/project, and the home's own folder there cannot be mounted", workspace.ReasonActionFailed, 0}},
		"another subPath":              {"no-secret", saying("CreateContainerConfigError", `failed to prepare subPath for volumeMount "x" of container "workspace"`), want{"starting", workspace.WaitContainer, "failed to prepare subPath", "", 0}},
		"the engine is slow":           {"no-secret", saying("CreateContainerError", "context deadline exceeded"), want{"starting", workspace.WaitContainer, "context deadline exceeded", "", 0}},
		"the container does not start": {"no-secret", saying("RunContainerError", "context deadline exceeded"), want{"starting", workspace.WaitContainer, "tries again", "", 0}},

		"its node is lost":               {"running", lose, want{"unhealthy", workspace.WaitNodeLost, "node1 has stopped reporting", "", 0}},
		"its node is lost, in old words": {"running", func(p *corev1.Pod) { p.Status.Phase = corev1.PodUnknown }, want{"unhealthy", workspace.WaitNodeLost, "kubectl describe node node1", "", 0}},
		"told to end":                    {"stuck", nil, want{"unhealthy", workspace.WaitTerminating, "kubectl describe node node1", "", 0}},
		"told to end, and lost":          {"stuck", lose, want{"unhealthy", workspace.WaitNodeLost, "kubectl taint nodes node1 node.kubernetes.io/out-of-service", "", 0}},
		"told to end before it ran":      {"mount-fails", func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{} }, want{"starting", workspace.WaitTerminating, "node1 has not confirmed", "", 0}},
		"drained":                        {"drained", nil, want{"unhealthy", workspace.WaitTerminating, "", "", 0}},
		"kept by a finalizer":            {"finalized", nil, want{"ended", workspace.WaitTerminating, "example.com/keep", "", 137}},

		"exit code 0":     {"exit-0", nil, want{runs: "ended"}},
		"exit code 3":     {"exit-3", nil, want{runs: "ended", code: 3}},
		"no such command": {"no-command", nil, want{runs: "ended", says: `could not be started: failed to create containerd task`, code: 128}},
		"out of memory":   {"oom", nil, want{runs: "ended", says: "it ran out of memory", code: 137}},
		"evicted":         {"evicted", nil, want{runs: "ended", says: `its node evicted it: Usage of EmptyDir volume "tmp" exceeds the limit "5Mi"; raise the limit of temporary files`, code: 137}},
		"a node without room": {"evicted", func(p *corev1.Pod) {
			p.Status.Message = "The node was low on resource: memory. Threshold quantity: 100Mi, available: 90Mi. "
		}, want{runs: "ended", says: "free some on the node", code: 137}},
		"refused by its node":       {"rejected", nil, want{runs: "ended", says: "its node node1 did not keep it: NodeAffinity: Pod was rejected", code: 137}},
		"drained, and ended":        {"drained", func(p *corev1.Pod) { terminated(p, "Error", 137); p.DeletionTimestamp = nil }, want{runs: "ended", says: "node1 was drained", code: 137}},
		"its node is removed":       {"running", removed, want{"unhealthy", workspace.WaitNodeLost, `kubectl patch pod ws-`, "", 0}},
		"its node was back":         {"running", func(p *corev1.Pod) { removed(p); terminated(p, "Error", 137) }, want{"ended", workspace.WaitTerminating, "as soon as the cluster gets to it", "", 137}},
		"kept by us":                {"finalized", func(p *corev1.Pod) { p.Finalizers = []string{spec.Finalizer} }, want{"ended", workspace.WaitTerminating, "as soon as the cluster gets to it", "", 137}},
		"deleted by force":          {"exit-3", func(p *corev1.Pod) { deletedAt(p, 0) }, want{"ended", workspace.WaitTerminating, "", "", 3}},
		"deleted when it had ended": {"exit-3", func(p *corev1.Pod) { deletedAt(p, 5*time.Second) }, want{"ended", workspace.WaitTerminating, "", "", 3}},
		"its node is tainted":       {"running", func(p *corev1.Pod) { terminated(p, "Error", 137); disrupted(p, "DeletionByTaintManager") }, want{runs: "ended", says: "taint", code: 137}},
		"displaced":                 {"running", func(p *corev1.Pod) { terminated(p, "Error", 137); disrupted(p, "PreemptionByScheduler") }, want{runs: "ended", says: "higher priority", code: 137}},
		"its node shut down":        {"running", func(p *corev1.Pod) { terminated(p, "Error", 137); p.Status.Reason = "Terminated" }, want{runs: "ended", says: "node1 was shut down", code: 137}},
		"its node forgot it":        {"running", func(p *corev1.Pod) { terminated(p, "ContainerStatusUnknown", 137) }, want{runs: "ended", says: "no longer knows it", code: 137}},
		"the phase is late":         {"exit-3", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning }, want{runs: "ended", code: 3}},
	} {
		p := real(t).Pods[c.from]
		if p == nil {
			t.Fatalf("%s: no Pod %s", name, c.from)
		}
		if c.change != nil {
			c.change(p)
		}
		k := status.Container(p)
		runs := string(k.Health)
		switch {
		case k.Ready:
			runs = "ready"
		case !k.Running && k.FinishedAt.IsZero():
			runs = "not started"
		case !k.Running:
			runs = "ended"
		}
		pending := workspace.Pending{}
		if k.Pending != nil {
			pending = *k.Pending
		}
		w := c.want
		if runs != w.runs || pending.Reason != w.pending || pending.Failure != w.fails || k.ExitCode != w.code || !strings.Contains(pending.Message+k.Cause, w.says) ||
			w.says == "" && w.pending == "" && k.Cause != "" {
			t.Errorf("%s: %s, waits for %+v, exit code %d, cause %q; want %+v", name, runs, pending, k.ExitCode, k.Cause, w)
		}
		if k.Ready != (k.Health == "" && k.Running && k.Endpoint != "") || k.Pending != nil && k.Pending.Message == "" {
			t.Errorf("%s: %+v", name, k)
		}
		if ended := runs == "ended"; ended && (k.StartedAt.IsZero() || k.StartedAt.Year() < 2026 || k.FinishedAt.Before(k.StartedAt) || k.Endpoint != "") {
			t.Errorf("%s: from %s to %s at %q", name, k.StartedAt, k.FinishedAt, k.Endpoint)
		}
		if p.DeletionTimestamp != nil && k.Endpoint != "" {
			t.Errorf("%s: a route to %s, which may be another's at any time", name, k.Endpoint)
		}
		if k.Disrupted != disrupts[name] {
			t.Errorf("%s: others have ended it: %v", name, k.Disrupted)
		}
		if !k.Volume {
			t.Errorf("%s: without its home", name)
		}
	}
}

// mountsFolder adds the mount of a folder of the home at its own place.
func mountsFolder(p *corev1.Pod) {
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: c.VolumeMounts[0].Name, MountPath: "/home/coder/project", SubPath: "home/project"})
}

// TestAContainerIsLookedInto: the program looks into a container once it runs, if this release started it. It does not
// look while the container starts or ends, if an earlier release started it, or if its node is lost.
func TestAContainerIsLookedInto(t *testing.T) {
	for name, c := range map[string]struct {
		from   string
		change func(*corev1.Pod)
		want   bool
	}{
		"running":                  {"running", nil, true},
		"a probe fails":            {"not-ready", nil, true},
		"no address yet":           {"running", func(p *corev1.Pod) { p.Status.PodIP = "" }, true},
		"of an earlier release":    {"running", func(p *corev1.Pod) { delete(p.Annotations, spec.AnnotationUnseen) }, false},
		"an image is fetched":      {"image-absent", nil, false},
		"behind the gate":          {"gated", nil, false},
		"told to end":              {"stuck", nil, false},
		"its node does not report": {"running", lose, false},
		"ended":                    {"exit-3", nil, false},
	} {
		p := real(t).Pods[c.from]
		if p.Annotations == nil {
			p.Annotations = map[string]string{}
		}
		p.Annotations[spec.AnnotationUnseen] = "code:1"
		if c.change != nil {
			c.change(p)
		}
		if got := status.Container(p).StartAgain; got != c.want {
			t.Errorf("%s: it is to be started again: %v, want %v", name, got, c.want)
		}
	}
}

// deletedAt deletes the Pod that long after its container had ended.
func deletedAt(p *corev1.Pod, after time.Duration) {
	const grace = 30
	asked := p.Status.ContainerStatuses[0].State.Terminated.FinishedAt.Add(after)
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: asked.Add(grace * time.Second)}, new(int64(grace))
}

func ready(p *corev1.Pod, t corev1.PodConditionType) {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			p.Status.Conditions[i].Status = corev1.ConditionTrue
		}
	}
}

func saying(reason, message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0].State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
}

// firstTry gives the Pod the state after the node's first attempt to pull the image, before the second one.
func firstTry(p *corev1.Pod) {
	_, cause, _ := strings.Cut(p.Status.ContainerStatuses[0].State.Waiting.Message, "ErrImagePull: ")
	saying("ErrImagePull", cause)(p)
}

// noCause is the message of a node before Kubernetes 1.31.
func noCause(p *corev1.Pod) {
	saying("ImagePullBackOff", `Back-off pulling image "127.0.0.1:5999/absent/image:1"`)(p)
}

func TestTheDetailsOfARunningContainer(t *testing.T) {
	p := real(t).Pods["running"]
	k := status.Container(p)
	if k.Endpoint != p.Status.PodIP+":8080" || k.BasePath != "/w/x/" || !k.StartedAt.Equal(time.Date(2026, 11, 22, 13, 49, 40, 0, time.UTC)) {
		t.Errorf("%+v", k)
	}
	p.Status.PodIP = "fd00::1"
	if k = status.Container(p); k.Endpoint != "[fd00::1]:8080" {
		t.Errorf("endpoint %q", k.Endpoint)
	}
	lose(p)
	if k = status.Container(p); k.Endpoint == "" || k.Ready || !k.Running {
		t.Errorf("people may still be working on a node that does not report: %+v", k)
	}
}

// TestTheHomeIsTheWorkspacesOwn: a container without its own home is a violation, regardless of its other
// mounts.
func TestTheHomeIsTheWorkspacesOwn(t *testing.T) {
	for name, change := range map[string]func(*corev1.Pod){
		"none":                nil,
		"another workspace's": func(p *corev1.Pod) { p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "ws-other-home" },
		"in another place":    func(p *corev1.Pod) { p.Spec.Containers[0].VolumeMounts[0].MountPath = "/mnt" },
		"in another container": func(p *corev1.Pod) {
			p.Spec.Containers = append([]corev1.Container{{Name: spec.Container}}, p.Spec.Containers...)
			p.Spec.Containers[1].Name = "other"
		},
		"not from a claim": func(p *corev1.Pod) {
			p.Spec.Volumes[0].VolumeSource = corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
		},
	} {
		p := real(t).Pods["running"]
		if name == "none" {
			p = real(t).Pods["no-home"]
		} else {
			change(p)
		}
		if status.Container(p).Volume {
			t.Errorf("%s: it counts as the workspace's home", name)
		}
	}
}
