package spec_test

import (
	"flag"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

var update = flag.Bool("update", false, "write the golden files")

const id = workspace.ID("00000000-0000-4000-8000-000000000001")

// plain are the options that have no default.
func plain() spec.Options {
	return spec.Options{Installation: "codehub", Image: "code:1", Egress: egress.Options{Enforce: egress.EnforceAuto}}
}

// full are options in which nothing has its default.
func full() spec.Options {
	return spec.Options{
		Installation: "co_de.hub", Image: "registry.example/code:1", Port: 8888, JobImage: "registry.example/job:1", ImagePullSecrets: "registry mirror",
		MemoryBytes: 2 << 30, NanoCPUs: 1_500_000_000, DiskBytes: 10 << 30, MemoryRequestBytes: 1 << 30, NanoCPUsRequest: 250_000_000,
		StopGrace: 2500 * time.Millisecond, User: 1001, Group: 1002, BusyCommand: "pgrep make",
		PodTemplate: `
metadata:
  labels: {team: tools}
  annotations: {example.com/scrape: "true"}
spec:
  affinity:
    podAntiAffinity:
      preferredDuringSchedulingIgnoredDuringExecution:
        - weight: 1
          podAffinityTerm: {topologyKey: kubernetes.io/hostname, labelSelector: {matchLabels: {team: tools}}}
  volumes:
    - name: certificates
      configMap: {name: certificates}
  containers:
    - name: workspace
      env: [{name: A, value: template}, {name: SSL_CERT_DIR, value: /certificates}]
      volumeMounts: [{name: certificates, mountPath: /certificates, readOnly: true}]
      resources: {limits: {example.com/gpu: "1"}}
`,
		HomeBytes: 50 << 30, StorageClass: "fast", AccessMode: "ReadWriteOncePod",
		NodeSelector: "pool=workspaces,disk=ssd", Tolerations: "dedicated=workspaces:NoSchedule spot:NoExecute gpu", PriorityClass: "low", RuntimeClass: "gvisor",
		JobMemoryBytes: 1 << 30, JobNanoCPUs: 2_000_000_000, JobScratchBytes: 1 << 30,
		GatewayPods: "app=gateway,tier=edge", GatewayNamespace: "edge", DNSNamespace: "dns",
		Egress: egress.Options{Enforce: egress.EnforceRequire, Allow: "10.0.0.5:443 fd00::/8", Deny: "203.0.113.0/24 2001:db8::/32", Gateways: "192.0.2.7"},
		Store:  "http://store.example:9000", StoreAddresses: []netip.Addr{netip.MustParseAddr("10.1.0.9"), netip.MustParseAddr("::ffff:10.1.0.8"), netip.MustParseAddr("198.51.100.1"), netip.MustParseAddr("10.1.0.9")},
	}
}

// owner is the user of the workspace.
const owner = "5a8e0f0a-2222-4222-8333-444444444444"

// start is a spec with every optional value.
func start() backend.StartSpec {
	return backend.StartSpec{
		ID: id, Image: "notebook:1", Port: 8890, Command: []string{"--dir", "$(HOME)"}, Env: []string{"A=1", "B=$(A) $HOME", "A=2"},
		Hostname: "my-project", BasePath: "/w/" + string(id), Owner: owner, Term: "node:1",
	}
}

func job(kind workspace.JobKind) backend.JobSpec {
	return backend.JobSpec{ID: id, Kind: kind, OpID: "7b0c5c1e-1111-4222-8333-444444444444", Env: []string{"ARCHIVE_URL=s3://b/k"}, Grant: []byte(`{}`), Owner: owner, Term: "node:1"}
}

func pod(t *testing.T, o spec.Options, s backend.StartSpec) *corev1.Pod {
	t.Helper()
	p, err := spec.Pod(o, s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestGolden(t *testing.T) {
	made := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: spec.JobName(job(workspace.JobRestore)), UID: "uid-of-the-job"}}
	open := plain()
	open.Egress.Enforce = egress.EnforceOpen
	folders := pod(t, full(), start())
	spec.MountFolders(folders, []string{"/home/coder/project", "/home/coder/.local/share/editor"})
	for name, objects := range map[string][]any{
		"pod_folders":  {folders},
		"pod":          {pod(t, plain(), backend.StartSpec{ID: id, Term: "node:1"})},
		"pod_full":     {pod(t, full(), start())},
		"claim":        {spec.Claim(plain(), backend.VolumeSpec{ID: id, OpID: "op-1", Owner: owner})},
		"claim_full":   {spec.Claim(full(), backend.VolumeSpec{ID: id})},
		"job_archive":  {spec.Job(plain(), job(workspace.JobArchive))},
		"job_restore":  {spec.Job(full(), job(workspace.JobRestore))},
		"grant":        {spec.Grant(plain(), job(workspace.JobRestore), made)},
		"network":      {spec.NetworkPolicies(plain())[0], spec.NetworkPolicies(plain())[1]},
		"network_open": {spec.NetworkPolicies(open)[0], spec.NetworkPolicies(open)[1]},
		"network_full": {spec.NetworkPolicies(full())[0], spec.NetworkPolicies(full())[1]},
	} {
		t.Run(name, func(t *testing.T) {
			var got []byte
			for i, object := range objects {
				text, err := yaml.Marshal(object)
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					got = append(got, "---\n"...)
				}
				got = append(got, text...)
			}
			file := filepath.Join("testdata", name+".yaml")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("%s differs; look at what -update changes:\n%s", file, got)
			}
		})
	}
}

// TestPodSecurity: with all settings, workspaces meet Pod Security's level "restricted", and storage jobs meet
// "baseline".
func TestPodSecurity(t *testing.T) {
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]spec.Options{"plain": plain(), "full": full()} {
		p := pod(t, o, start())
		spec.MountFolders(p, []string{"/home/coder/project"})
		for level, pods := range map[api.Level][]*corev1.PodTemplateSpec{
			api.LevelRestricted: {{ObjectMeta: p.ObjectMeta, Spec: p.Spec}},
			api.LevelBaseline:   {&spec.Job(o, job(workspace.JobArchive)).Spec.Template, &spec.Job(o, job(workspace.JobRestore)).Spec.Template},
		} {
			for i, p := range pods {
				r := policy.AggregateCheckResults(checks.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &p.ObjectMeta, &p.Spec))
				if !r.Allowed {
					t.Errorf("%s, %s, Pod %d: %s", name, level, i, r.ForbiddenDetail())
				}
				if p.Spec.AutomountServiceAccountToken == nil || *p.Spec.AutomountServiceAccountToken {
					t.Errorf("%s, %s, Pod %d has a token of a service account", name, level, i)
				}
			}
		}
	}
}
