package spec_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// mountAt is the mount of the workspace's container at a path, with its volume.
func mountAt(t *testing.T, p *corev1.Pod, path string) (m corev1.VolumeMount, v corev1.Volume) {
	t.Helper()
	for _, m = range p.Spec.Containers[0].VolumeMounts {
		if m.MountPath != path {
			continue
		}
		for _, v = range p.Spec.Volumes {
			if v.Name == m.Name {
				return m, v
			}
		}
	}
	t.Fatalf("nothing is mounted at %s: %+v", path, p.Spec)
	return m, v
}

// TestSharedMemory: the size of the shared memory is half of the workspace's memory limit. If the workspace has no
// limit, neither has its shared memory. A template may set another size.
func TestSharedMemory(t *testing.T) {
	for memory, want := range map[int64]string{2 << 30: "1Gi", 512 << 20: "256Mi", 0: ""} {
		o := plain()
		o.MemoryBytes = memory
		_, v := mountAt(t, pod(t, o, start()), "/dev/shm")
		dir := v.EmptyDir
		if dir == nil || dir.Medium != corev1.StorageMediumMemory || (dir.SizeLimit == nil) != (want == "") ||
			want != "" && dir.SizeLimit.Cmp(resource.MustParse(want)) != 0 {
			t.Errorf("memory %d: %+v, want %q of memory", memory, dir, want)
		}
	}
	o := plain()
	o.PodTemplate = `{spec: {volumes: [{name: dshm, emptyDir: {medium: Memory, sizeLimit: 3Gi}}],
		containers: [{name: workspace, volumeMounts: [{mountPath: /dev/shm, name: dshm}]}]}}`
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	if _, v := mountAt(t, pod(t, o, start()), "/dev/shm"); v.Name != "dshm" || v.EmptyDir.SizeLimit.String() != "3Gi" {
		t.Errorf("with a template: %+v", v)
	}
}

// TestStopGrace: a workspace ends with the grace period of the template, or otherwise of the settings, in whole seconds
// and never 0. If another program deletes its Pod, as in the drain of a node, it has the same time to end.
func TestStopGrace(t *testing.T) {
	for grace, want := range map[time.Duration]int64{0: 1, time.Millisecond: 1, time.Second: 1, 1001 * time.Millisecond: 2, 3 * time.Second: 3, time.Minute: 60} {
		o := plain()
		o.StopGrace = grace
		p := pod(t, o, start())
		if got := *p.Spec.TerminationGracePeriodSeconds; got != want || spec.GraceOf(p) != want {
			t.Errorf("%s: %d s and %d s, want %d", grace, got, spec.GraceOf(p), want)
		}
	}
	o := plain()
	for template, want := range map[string]int64{
		"spec: {terminationGracePeriodSeconds: 30}": 30, "spec: {terminationGracePeriodSeconds: 60}": 60, "spec: {terminationGracePeriodSeconds: 0}": 1,
	} {
		o.PodTemplate = template
		if got := spec.GraceOf(pod(t, o, start())); got != want {
			t.Errorf("%s: %d s, want %d", template, got, want)
		}
	}
	if got := spec.GraceOf(&corev1.Pod{}); got != 1 {
		t.Errorf("a Pod without one: %d s", got)
	}
	for _, bad := range []time.Duration{-time.Second, 2 * time.Minute} {
		o := plain()
		if o.StopGrace = bad; o.Validate() == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
}

// TestFolderOfTheHome: a template may mount a folder of the home at its own place. Then the runtime mounts no volume of
// the image's own there.
func TestFolderOfTheHome(t *testing.T) {
	o := plain()
	o.PodTemplate = `{spec: {containers: [{name: workspace, volumeMounts: [{mountPath: /home/coder/project/, name: home, subPath: home/project}]}]}}`
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	p := pod(t, o, start())
	m, v := mountAt(t, p, "/home/coder/project/")
	if m.SubPath != "home/project" || m.ReadOnly || v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != id.VolumeName() {
		t.Errorf("%+v of %+v", m, v)
	}
	if m, _ := mountAt(t, p, "/home/coder"); m.SubPath != "home" {
		t.Errorf("the home is %+v", m)
	}
}

// TestTheImagesUserIsNotAsked: whichever user the image names, the Pod sets the user of its processes and the group of
// its home.
func TestTheImagesUserIsNotAsked(t *testing.T) {
	p := pod(t, plain(), start())
	c, s := p.Spec.Containers[0], p.Spec.SecurityContext
	if s.RunAsUser == nil || *s.RunAsUser != spec.DefaultUser || s.RunAsGroup == nil || s.FSGroup == nil || *s.FSGroup != spec.DefaultUser || !*s.RunAsNonRoot {
		t.Errorf("%+v", s)
	}
	if c.SecurityContext.RunAsUser != nil || c.WorkingDir != "" || c.Lifecycle != nil {
		t.Errorf("%+v", c)
	}
}
