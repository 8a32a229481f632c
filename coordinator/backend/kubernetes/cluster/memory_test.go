package cluster

import (
	"encoding/binary"
	"fmt"
	"net/http"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	quantity "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	pbuf "k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// workspaces is the number of workspaces in the cluster of [fillAll], each with a Pod, a PersistentVolumeClaim and a
// Job.
const workspaces = 10_000

// heapLimit is how many of the 300 MiB that the program may use are for the caches.
const heapLimit = 110

// TestMemory fills the caches of one process with the objects of a large installation.
func TestMemory(t *testing.T) {
	if _, heap := fillAll(t); heap > heapLimit {
		t.Errorf("%d MiB on the heap, want at most %d", heap, heapLimit)
	}
}

// BenchmarkMemory prints the memory of a process with those caches. The same process also plays the cluster.
func BenchmarkMemory(b *testing.B) {
	rss, _ := fillAll(b)
	fmt.Printf("figure k8s_10000_rss_mib %d MiB\n", rss)
	b.ReportMetric(0, "ns/op")
}

// fillAll returns this process's resident memory after the caches have been filled, and the part in use, in MiB.
func fillAll(t testing.TB) (rss, heap int) {
	t.Helper()
	f := newFake(t, "A")
	f.answers(stream(t))
	all := f.connect().Follow("a=b")
	start := time.Now()
	pods, err1 := all.Pods.List(t.Context())
	claims, err2 := all.Claims.List(t.Context())
	jobs, err3 := all.Jobs.List(t.Context())
	if err1 != nil || err2 != nil || err3 != nil || len(pods) != workspaces || len(claims) != workspaces || len(jobs) != workspaces {
		t.Fatalf("%d Pods (%v), %d claims (%v), %d Jobs (%v)", len(pods), err1, len(claims), err2, len(jobs), err3)
	}
	took := time.Since(start)
	rss = resident(t)
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	heap = int(m.HeapAlloc >> 20)
	t.Logf("%d objects in %s: resident %d MiB, on the heap %d MiB", 3*workspaces, took.Round(time.Millisecond), rss, heap)
	runtime.KeepAlive(all)
	return rss, heap
}

// resident returns the resident memory of this process, in MiB.
func resident(t testing.TB) int {
	t.Helper()
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Skip(err)
	}
	_, rest, _ := strings.Cut(string(b), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib >> 10
}

// stream answers watches with all objects, as a real cluster sends them: in Protocol Buffers, with all fields that the
// API server, the scheduler and the kubelet add.
func stream(t testing.TB) func(w http.ResponseWriter, r *http.Request) bool {
	scheme := k8sruntime.NewScheme()
	for _, add := range []func(*k8sruntime.Scheme) error{corev1.AddToScheme, batchv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	raw := pbuf.NewSerializer(scheme, scheme)
	codecs := serializer.NewCodecFactory(scheme)
	o := spec.Options{Installation: "test", Image: "registry.example.com/team/workspace:1.2.3", Port: 8080, JobImage: "registry.example.com/team/job:1"}
	return func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("watch") == "" {
			return false
		}
		w.Header().Set("Content-Type", "application/vnd.kubernetes.protobuf;stream=watch")
		w.WriteHeader(http.StatusOK)
		gv := corev1.SchemeGroupVersion
		if path.Base(r.URL.Path) == "jobs" {
			gv = batchv1.SchemeGroupVersion
		}
		encoder := codecs.EncoderForVersion(raw, gv)
		send := func(kind watch.EventType, obj k8sruntime.Object) {
			b, err := k8sruntime.Encode(encoder, obj)
			if err != nil {
				t.Error(err)
				return
			}
			// Events have no prefix; only whole answers have one.
			b, err = (&metav1.WatchEvent{Type: string(kind), Object: k8sruntime.RawExtension{Raw: b}}).Marshal()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = w.Write(binary.BigEndian.AppendUint32(nil, uint32(len(b))))
			_, _ = w.Write(b)
		}
		for i := range workspaces {
			if obj := aged(t, o, path.Base(r.URL.Path), i); obj != nil {
				send(watch.Added, obj)
			}
		}
		end := blankOf(path.Base(r.URL.Path))
		end.SetResourceVersion("1")
		end.SetAnnotations(map[string]string{metav1.InitialEventsAnnotationKey: "true"})
		send(watch.Bookmark, end)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		return true
	}
}

func blankOf(kind string) object {
	switch kind {
	case "pods":
		return new(corev1.Pod)
	case "jobs":
		return new(batchv1.Job)
	}
	return new(corev1.PersistentVolumeClaim)
}

// aged returns one of a workspace's objects as it is after some time in the cluster.
func aged(t testing.TB, o spec.Options, kind string, i int) object {
	id := workspace.ID(fmt.Sprintf("%08x-1111-4222-8333-%012x", i, i))
	op := fmt.Sprintf("%08x-aaaa-4bbb-8ccc-%012x", i, i)
	now := metav1.Now()
	var obj object
	switch kind {
	case "pods":
		p, err := spec.Pod(o, backend.StartSpec{ID: id, Env: []string{"A=b", "PASSWORD=" + op}, Hostname: "ws", BasePath: "/w/" + string(id), Term: "coordinator/3:17"})
		if err != nil {
			t.Error(err)
			return nil
		}
		p.Spec.NodeName = fmt.Sprintf("node-%d.example.internal", i%50)
		p.Spec.SchedulingGates = nil
		ip := fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)
		p.Status = corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "10.0.0.1", PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}, StartTime: &now, QOSClass: corev1.PodQOSBurstable}
		for _, c := range []corev1.PodConditionType{corev1.PodReadyToStartContainers, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled} {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{Type: c, Status: corev1.ConditionTrue, LastTransitionTime: now})
		}
		started := true
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, Ready: true, Started: &started, Image: o.Image, ImageID: o.Image + "@sha256:" + strings.Repeat("a", 64),
			ContainerID: "containerd://" + strings.Repeat("b", 52) + fmt.Sprintf("%012x", i), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: now}},
		}}
		obj = p
	case "jobs":
		j := spec.Job(o, backend.JobSpec{ID: id, OpID: op, Kind: workspace.JobArchive})
		j.Status = batchv1.JobStatus{Succeeded: 1, StartTime: &now, CompletionTime: &now, Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now, Reason: "CompletionsReached", Message: "Reached expected number of succeeded pods"}}}
		obj = j
	default:
		c := spec.Claim(o, backend.VolumeSpec{ID: id, OpID: op})
		c.Spec.VolumeName = "pvc-" + op
		c.Finalizers = []string{"kubernetes.io/pvc-protection"}
		c.Annotations = map[string]string{"pv.kubernetes.io/bind-completed": "yes", "volume.kubernetes.io/storage-provisioner": "example.com/csi", "volume.kubernetes.io/selected-node": "node"}
		c.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, AccessModes: c.Spec.AccessModes, Capacity: corev1.ResourceList{corev1.ResourceStorage: quantity.MustParse("10Gi")}}
		obj = c
	}
	obj.SetNamespace("codehub")
	obj.SetUID(types.UID(op))
	obj.SetResourceVersion(strconv.Itoa(100_000 + i))
	obj.SetCreationTimestamp(now)
	fields := metav1.NewFieldsV1(`{"f:metadata":{"f:labels":{` + strings.Repeat(`"f:codehub.dev/x":{},`, 60) + `"f:y":{}}}}`)
	obj.SetManagedFields([]metav1.ManagedFieldsEntry{
		{Manager: "codehub", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: fields},
		{Manager: "kubelet", Operation: "Update", APIVersion: "v1", Time: &now, FieldsType: "FieldsV1", FieldsV1: fields, Subresource: "status"},
	})
	return obj
}
