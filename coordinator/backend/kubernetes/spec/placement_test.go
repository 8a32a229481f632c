package spec_test

import (
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// placement is where a Pod may run.
func placement(p corev1.PodSpec) []any {
	return []any{p.NodeSelector, p.Tolerations, p.Affinity, p.PriorityClassName, p.RuntimeClassName, p.SchedulerName}
}

// TestJobsKnowTheNamesOfWorkspaces: jobs get the host names of the Pod template, because the object store's name may be
// one of them.
func TestJobsKnowTheNamesOfWorkspaces(t *testing.T) {
	o := spec.Options{Installation: "i", Image: "x", PodTemplate: `{"spec": {"dnsPolicy": "Default", "hostAliases": [{"ip": "10.0.0.5", "hostnames": ["s3.example.com"]}]}}`}
	for _, kind := range []workspace.JobKind{workspace.JobArchive, workspace.JobRestore} {
		j := spec.Job(o, job(kind)).Spec.Template.Spec
		if want := []corev1.HostAlias{{IP: "10.0.0.5", Hostnames: []string{"s3.example.com"}}}; !reflect.DeepEqual(j.HostAliases, want) {
			t.Errorf("%s: %+v, want %+v", kind, j.HostAliases, want)
		}
		if j.DNSPolicy != "" { // its store may be a Service, which only the cluster's name servers know
			t.Errorf("%s asks %s name servers", kind, j.DNSPolicy)
		}
	}
}

// TestJobsGoWhereWorkspacesGo: a job runs only where its workspace can run, because a restore is the first to use a new
// claim and so chooses its zone.
func TestJobsGoWhereWorkspacesGo(t *testing.T) {
	const template = `
spec:
  nodeSelector: {zone: b}
  priorityClassName: high
  schedulerName: other
  tolerations: [{key: gpu, operator: Exists}]
  affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: pool, operator: Exists}]}]}}}
  containers:
    - {name: workspace, resources: {requests: {cpu: "3", memory: 4Gi}, limits: {memory: 8Gi, example.com/gpu: "1"}}}
`
	for name, o := range map[string]spec.Options{"plain": plain(), "full": full(), "template": {Installation: "i", Image: "x", NodeSelector: "pool=a", PodTemplate: template, JobNanoCPUs: 1_000_000_000}} {
		ws, err := spec.Pod(o, start())
		if err != nil {
			t.Fatal(err)
		}
		for _, kind := range []workspace.JobKind{workspace.JobArchive, workspace.JobRestore} {
			j := spec.Job(o, job(kind)).Spec.Template.Spec
			if !reflect.DeepEqual(placement(j), placement(ws.Spec)) {
				t.Errorf("%s, %s: %+v, want that of the workspace: %+v", name, kind, placement(j), placement(ws.Spec))
			}
			r, limits := j.Containers[0].Resources.Requests, j.Containers[0].Resources.Limits
			for resource, asked := range ws.Spec.Containers[0].Resources.Requests {
				if have := r[resource]; resource != corev1.ResourceEphemeralStorage && have.Cmp(asked) < 0 {
					t.Errorf("%s, %s asks for %s of %s, the workspace for %s", name, kind, &have, resource, &asked)
				}
			}
			for resource, asked := range r {
				if limit, ok := limits[resource]; ok && limit.Cmp(asked) < 0 {
					t.Errorf("%s, %s asks for %s of %s, above its limit %s", name, kind, &asked, resource, &limit)
				}
			}
			if gpu := limits["example.com/gpu"]; name == "template" && gpu.Cmp(resource.MustParse("1")) != 0 {
				t.Errorf("%s: %s of what is asked for by its limit alone", kind, &gpu)
			}
		}
	}
}

// TestJobsPreferTheNodeOfTheirHome: this preference is added to those of the template.
func TestJobsPreferTheNodeOfTheirHome(t *testing.T) {
	home := spec.Claim(full(), backend.VolumeSpec{ID: start().ID, OpID: "op"})
	with, without := spec.Job(full(), job(workspace.JobArchive)).Spec.Template.Spec, spec.Job(full(), job(workspace.JobArchive)).Spec.Template.Spec
	if spec.Near(&with, home); !reflect.DeepEqual(with, without) {
		t.Error("a home that was never used has a node")
	}
	home.Annotations = map[string]string{spec.AnnotationNode: "node1"}
	spec.Near(&with, home)
	terms := with.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].Weight == 0 || with.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil || with.Affinity.PodAntiAffinity == nil {
		t.Fatalf("%+v", with.Affinity)
	}
	if f := terms[0].Preference.MatchFields; len(f) != 1 || f[0].Key != metav1.ObjectNameField || !slices.Equal(f[0].Values, []string{"node1"}) {
		t.Errorf("%+v", f)
	}
}

// TestSettings: the hash changes only with settings that affect a Pod or a Job.
func TestSettings(t *testing.T) {
	of := func(change func(*spec.Options)) string {
		o := plain()
		change(&o)
		hash := spec.Settings(o)
		p, err := spec.Pod(o, start())
		if err != nil {
			t.Fatal(err)
		}
		j := spec.Job(o, job(workspace.JobRestore))
		for _, a := range []map[string]string{p.Annotations, j.Annotations, j.Spec.Template.Annotations} {
			if a[spec.AnnotationSettings] != hash || hash == "" {
				t.Errorf("the annotation is %q, want %q", a[spec.AnnotationSettings], hash)
			}
		}
		return hash
	}
	was := of(func(*spec.Options) {})
	for name, c := range map[string]struct {
		change func(*spec.Options)
		same   bool
	}{
		"nothing":              {func(*spec.Options) {}, true},
		"the default":          {func(o *spec.Options) { o.JobMemoryBytes = spec.DefaultJobMemory }, true},
		"who may reach it":     {func(o *spec.Options) { o.GatewayPods = "app=other" }, true},
		"the node selector":    {func(o *spec.Options) { o.NodeSelector = "pool=b" }, false},
		"a toleration":         {func(o *spec.Options) { o.Tolerations = "gpu" }, false},
		"the requests":         {func(o *spec.Options) { o.MemoryRequestBytes = 1 << 30 }, false},
		"the image":            {func(o *spec.Options) { o.Image = "other" }, false},
		"the image of jobs":    {func(o *spec.Options) { o.JobImage = "other" }, false},
		"the template":         {func(o *spec.Options) { o.PodTemplate = "spec: {schedulerName: other}" }, false},
		"the class of the Pod": {func(o *spec.Options) { o.PriorityClass = "high" }, false},
	} {
		if now := of(c.change); (now == was) != c.same {
			t.Errorf("%s: %s, was %s", name, now, was)
		}
	}
}
