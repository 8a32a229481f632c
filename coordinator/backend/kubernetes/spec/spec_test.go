package spec_test

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestGitURL: a Pod has the exact address of the repository: Kubernetes must not replace parts of it.
func TestGitURL(t *testing.T) {
	images := launch.Catalog{{Name: "code", Reference: "code:1", Git: true}}
	s, err := launch.Spec(images, launch.Site{}, workspace.Workspace{ID: id, OwnerID: owner, Name: "x", GitURL: "https://git.example/$(HOME)/a.git"})
	if err != nil {
		t.Fatal(err)
	}
	env := pod(t, plain(), s).Spec.Containers[0].Env
	if want := (corev1.EnvVar{Name: "CODEHUB_GIT_URL", Value: "https://git.example/$$(HOME)/a.git"}); !slices.Contains(env, want) {
		t.Errorf("the Pod has %v, want %v", env, want)
	}
}

// TestHash: a process recognises by the hash a Pod that it would have created in the same way, and no other.
func TestHash(t *testing.T) {
	hash := func(o spec.Options, s backend.StartSpec) string { return pod(t, o, s).Annotations[spec.AnnotationSpec] }
	want := hash(plain(), start())
	other := start()
	other.Term = "node:2"
	if want == "" || hash(plain(), start()) != want || hash(plain(), other) != want {
		t.Error("the hash differs for the same Pod")
	}
	if !reflect.DeepEqual(pod(t, full(), start()), pod(t, full(), start())) {
		t.Error("equal input gives unequal Pods")
	}
	for name, change := range map[string]func(*spec.Options, *backend.StartSpec){
		"image":     func(_ *spec.Options, s *backend.StartSpec) { s.Image = "other:1" },
		"port":      func(_ *spec.Options, s *backend.StartSpec) { s.Port = 1 },
		"base path": func(_ *spec.Options, s *backend.StartSpec) { s.BasePath = "" },
		"busy":      func(o *spec.Options, _ *backend.StartSpec) { o.BusyCommand = "true" },
		"memory":    func(o *spec.Options, _ *backend.StartSpec) { o.MemoryBytes = 1 << 30 },
		"template":  func(o *spec.Options, _ *backend.StartSpec) { o.PodTemplate = "metadata: {labels: {a: b}}" },
	} {
		o, s := plain(), start()
		change(&o, &s)
		if hash(o, s) == want {
			t.Errorf("%s: another Pod has the same hash", name)
		}
	}
}

func TestPodRefuses(t *testing.T) {
	for name, s := range map[string]backend.StartSpec{
		"id":          {ID: "x"},
		"host name":   {ID: id, Hostname: "My Project"},
		"environment": {ID: id, Env: []string{"A"}},
	} {
		if p, err := spec.Pod(plain(), s); err == nil {
			t.Errorf("%s: %v", name, p)
		}
	}
}

// TestJobName: a name is stable, unique, and valid as a Pod's host name, too.
func TestJobName(t *testing.T) {
	seen := make(map[string]string)
	for _, op := range []string{"op", "op-1", "Op", "o_p", "7b0c5c1e-1111-4222-8333-444444444444", strings.Repeat("a", 64)} {
		for _, kind := range []workspace.JobKind{workspace.JobArchive, workspace.JobRestore} {
			s := backend.JobSpec{ID: id, Kind: kind, OpID: op}
			name := spec.JobName(s)
			if errs := validation.IsDNS1123Label(name); len(errs) > 0 || spec.JobName(s) != name || !strings.HasPrefix(name, id.ContainerName()) {
				t.Errorf("%s: %s: %v", op, name, errs)
			}
			if was, ok := seen[name]; ok {
				t.Errorf("%s and %s share the name %s", was, op, name)
			}
			seen[name] = op
		}
	}
	if got, want := spec.JobName(backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: "op-1"}), id.ContainerName()+"-archive-op-1"; got != want {
		t.Errorf("a short name becomes %s, want %s", got, want)
	}
}

func TestGrow(t *testing.T) {
	const gib = 1 << 30
	claim := func(size int64, phase corev1.PersistentVolumeClaimPhase) *corev1.PersistentVolumeClaim {
		c := spec.Claim(spec.Options{Installation: "codehub", HomeBytes: size}, backend.VolumeSpec{ID: id, OpID: "op"})
		c.UID, c.ResourceVersion, c.Status.Phase = "uid", "7", phase
		return c
	}
	o := plain()
	o.HomeBytes = 20 * gib
	var got struct {
		Metadata struct{ UID, ResourceVersion string }
		Spec     struct {
			Resources struct{ Requests map[string]resource.Quantity }
		}
	}
	if err := json.Unmarshal(spec.Grow(o, claim(10*gib, corev1.ClaimBound)), &got); err != nil {
		t.Fatal(err)
	}
	size := got.Spec.Resources.Requests["storage"]
	if size.Value() != 20*gib || got.Metadata.UID != "uid" || got.Metadata.ResourceVersion != "7" {
		t.Errorf("%+v", got)
	}
	for name, c := range map[string]*corev1.PersistentVolumeClaim{
		"equal": claim(20*gib, corev1.ClaimBound), "larger": claim(30*gib, corev1.ClaimBound), "not bound": claim(10*gib, corev1.ClaimPending),
	} {
		if patch := spec.Grow(o, c); patch != nil {
			t.Errorf("%s: %s", name, patch)
		}
	}
}

// TestRequestsStayBelowLimits: Kubernetes refuses a request above the limit.
func TestRequestsStayBelowLimits(t *testing.T) {
	o := plain()
	o.MemoryBytes, o.NanoCPUs, o.DiskBytes, o.JobMemoryBytes, o.JobNanoCPUs = 64<<20, 1_000_000, 2<<20, 64<<20, 1_000_000
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	for _, r := range []corev1.ResourceRequirements{
		pod(t, o, start()).Spec.Containers[0].Resources,
		spec.Job(o, job(workspace.JobArchive)).Spec.Template.Spec.Containers[0].Resources,
	} {
		for name, request := range r.Requests {
			if limit, ok := r.Limits[name]; !ok || request.Cmp(limit) > 0 {
				t.Errorf("%s: %s requested, and the limit is %s", name, &request, &limit)
			}
		}
	}
}

func TestStore(t *testing.T) {
	for store, want := range map[string]struct{ name, rule string }{
		"":                                  {"", `"port":443}.*"cidr":"0.0.0.0/0"`},
		"http://10.0.0.9:9000":              {"", `"port":9000}.*"cidr":"10.0.0.9/32"`},
		"http://[fd00::9]:9000":             {"", `"port":9000}.*"cidr":"fd00::9/128"`},
		"http://store.storage.svc:9000":     {"", `"kubernetes.io/metadata.name":"storage"}}}\]}\]$`},
		"https://s.data.svc.cluster.local":  {"", `"kubernetes.io/metadata.name":"data"}}}\]}\]$`},
		"http://store:9000":                 {"", `"operator":"DoesNotExist"`},
		"https://s3.eu-1.example.com":       {"s3.eu-1.example.com", `"port":443}.*"cidr":"0.0.0.0/0"`},
		"http://store.example.com":          {"store.example.com", `"port":80}.*"cidr":"0.0.0.0/0"`},
		"https://bucket.svc.example.com:99": {"bucket.svc.example.com", `"port":99`},
	} {
		o := plain()
		o.Store = store
		if err := o.Validate(); err != nil {
			t.Errorf("%q: %v", store, err)
		}
		if got := o.StoreName(); got != want.name {
			t.Errorf("%q: the name to look up is %q, want %q", store, got, want.name)
		}
		text, err := json.Marshal(spec.NetworkPolicies(o)[1].Spec.Egress)
		if err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(want.rule).Match(text) {
			t.Errorf("%q: %s", store, text)
		}
	}
	o := plain()
	o.Store, o.Egress.Enforce = "http://store.example.com", egress.EnforceOpen
	if o.StoreName() != "" {
		t.Error("a name is looked up for rules that are not wanted")
	}
	o.Store = "http://store:9000"
	if _, _, ok := o.StoreService(); ok {
		t.Error("a service is asked for, for rules that are not wanted")
	}
}

// TestWhatStandsBehindAService: the policy also allows endpoints of a service that are not Pods, and they can be read
// back from the policy.
func TestWhatStandsBehindAService(t *testing.T) {
	for store, want := range map[string][2]string{
		"http://store:9000": {"store", ""}, "http://store.storage.svc:9000": {"store", "storage"}, "https://s.data.svc.cluster.local.": {"s", "data"},
	} {
		o := plain()
		o.Store = store
		if name, namespace, ok := o.StoreService(); !ok || name != want[0] || namespace != want[1] {
			t.Errorf("%s: %q in %q, %v", store, name, namespace, ok)
		}
		pods := len(spec.NetworkPolicies(o)[1].Spec.Egress)
		at := []netip.AddrPort{netip.MustParseAddrPort("10.0.0.9:9001"), netip.MustParseAddrPort("198.51.100.7:443"), netip.MustParseAddrPort("[fd00::9]:9001")}
		o.StoreEndpoints = append(slices.Clone(at), at[0])
		jobs := spec.NetworkPolicies(o)[1]
		if got := spec.Opened(jobs); !slices.Equal(got, at) || len(jobs.Spec.Egress) != pods+len(at) {
			t.Errorf("%s: opens %v, %d rules", store, got, len(jobs.Spec.Egress))
		}
		o.StoreEndpoints, o.StoreAddresses = nil, []netip.Addr{netip.MustParseAddr("10.96.0.5"), netip.MustParseAddr("198.51.100.7")}
		jobs = spec.NetworkPolicies(o)[1]
		text, err := json.Marshal(jobs.Spec.Egress)
		if err != nil {
			t.Fatal(err)
		}
		if got := spec.Opened(jobs); len(got) != 1 || got[0].Addr().String() != "10.96.0.5" || !strings.Contains(string(text), `"cidr":"0.0.0.0/0"`) {
			t.Errorf("%s, of another domain: opens %v, %s", store, got, text)
		}
	}
}

// TestDenyAll: if an operator denies the whole internet, no rule allows everything.
func TestDenyAll(t *testing.T) {
	o := plain()
	for deny, want := range map[string]string{"0.0.0.0/0": "::/0", "0.0.0.0/0 ::/0": ""} {
		o.Egress.Deny = deny
		var open []string
		for _, r := range spec.NetworkPolicies(o)[0].Spec.Egress[1:] {
			if len(r.To) == 0 {
				t.Errorf("%s: a rule opens everything", deny)
			}
			for _, peer := range r.To {
				open = append(open, peer.IPBlock.CIDR)
			}
		}
		if got := strings.Join(open, " "); got != want {
			t.Errorf("%s: %q is open, want %q", deny, got, want)
		}
	}
}
