// Package deploy_test tests the chart and the image. The tests of the chart's output run everywhere. The other tests
// need a cluster: `make test-k8s` runs them.
package deploy_test

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/standard"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	_ "github.com/codehub/gateway/caddymodule"
	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/storagejob/contract"
)

// variants names the values files for which there are golden files with the chart's output.
var variants = []string{"minimal", "full"}

func golden(variant string) string { return filepath.Join("chart", "testdata", variant+".golden.yaml") }

// objects returns the objects of a kind in a golden file, decoded as T.
func objects[T any](t *testing.T, variant, kind string) (all []T) {
	t.Helper()
	f, err := os.Open(golden(variant))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for d := yaml.NewYAMLOrJSONDecoder(f, 4096); ; {
		var raw json.RawMessage
		if err := d.Decode(&raw); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("%s: %v", golden(variant), err)
		}
		var head struct{ Kind string }
		var obj T
		if err := json.Unmarshal(raw, &head); err != nil {
			t.Fatal(err)
		}
		if head.Kind == kind {
			if err := json.Unmarshal(raw, &obj); err != nil {
				t.Fatal(err)
			}
			all = append(all, obj)
		}
	}
}

// TestTheChartAllowsWhatTheBackendDoes checks that the chart grants exactly the rights that the backend needs. The
// tests of package kubernetes check that the backend uses exactly these rights.
func TestTheChartAllowsWhatTheBackendDoes(t *testing.T) {
	for _, variant := range variants {
		var allowed []string
		add := func(rules []rbacv1.PolicyRule, clusterWide bool) {
			for _, r := range rules {
				if clusterWide && len(r.ResourceNames) == 0 {
					t.Errorf("%s: %v for the whole cluster", variant, r)
				}
				for _, resource := range r.Resources {
					resource, sub, _ := strings.Cut(resource, "/")
					for _, verb := range r.Verbs {
						right := doctor.Right{Verb: verb, Group: r.APIGroups[0], Resource: resource, Subresource: sub, Name: strings.Join(r.ResourceNames, " ")}
						allowed = append(allowed, right.String())
					}
				}
			}
		}
		for _, r := range objects[rbacv1.Role](t, variant, "Role") {
			add(r.Rules, false)
		}
		for _, r := range objects[rbacv1.ClusterRole](t, variant, "ClusterRole") {
			add(r.Rules, true)
		}
		var needed []string
		for _, r := range doctor.Rules() {
			needed = append(needed, r.String())
		}
		slices.Sort(allowed)
		slices.Sort(needed)
		if !slices.Equal(allowed, needed) {
			t.Errorf("%s: the chart allows\n%s\nand the backend needs\n%s", variant, strings.Join(allowed, ", "), strings.Join(needed, ", "))
		}
	}
}

// TestTheChartsCaddyfileIsValid checks that Caddy accepts the chart's Caddyfile, with every value at the place where
// the chart puts it.
func TestTheChartsCaddyfileIsValid(t *testing.T) {
	for name, value := range map[string]string{
		"DATABASE_URL": "postgres://u:p@db/x", "REDIS_URL": "redis://r/0", "S3_ACCESS_KEY": "a", "S3_SECRET_KEY": "b",
		"OIDC_CLIENT_SECRET": "c", "COORDINATOR_NODE_ID": "codehub-0", "KUBECONFIG": kubeconfig(t), "XDG_DATA_HOME": t.TempDir(), "XDG_CONFIG_HOME": t.TempDir(),
	} {
		t.Setenv(name, value)
	}
	example, err := os.ReadFile("../../Caddyfile.example")
	if err != nil {
		t.Fatal(err)
	}
	for _, variant := range variants {
		t.Run(variant, func(t *testing.T) {
			files := mountedFiles(t)
			for _, c := range objects[corev1.ConfigMap](t, variant, "ConfigMap") {
				for name, text := range c.Data {
					write(t, filepath.Join(files, name), text)
				}
			}
			text, err := os.ReadFile(filepath.Join(files, "Caddyfile"))
			if err != nil {
				t.Fatal(err)
			}
			replaced := strings.NewReplacer("/etc/codehub/files", files, "/etc/caddy", files).Replace(string(text))
			if got, want := gatewaytest.AdaptedServer(t, []byte(replaced)), gatewaytest.AdaptedServer(t, example); !reflect.DeepEqual(got, want) {
				t.Errorf("its server is %d %s, that of Caddyfile.example %d %s", got.MaxHeaderBytes, got.Encode, want.MaxHeaderBytes, want.Encode)
			}
			adapted, warnings, err := caddyconfig.GetAdapter("caddyfile").Adapt([]byte(replaced), nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range warnings {
				if !strings.Contains(w.Message, "not formatted") {
					t.Errorf("%s", w)
				}
			}
			var config caddy.Config
			if err := json.Unmarshal(adapted, &config); err != nil {
				t.Fatal(err)
			}
			if err := caddy.Validate(&config); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestThePodsAreRestricted checks that the strictest level of Pod Security admits the gateway and the Pods that pull
// images.
func TestThePodsAreRestricted(t *testing.T) {
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, variant := range variants {
		deployments := objects[appsv1.Deployment](t, variant, "Deployment")
		if len(deployments) != 1 {
			t.Fatalf("%s: %d deployments", variant, len(deployments))
		}
		pods := []corev1.PodTemplateSpec{deployments[0].Spec.Template}
		for _, d := range objects[appsv1.DaemonSet](t, variant, "DaemonSet") {
			pods = append(pods, d.Spec.Template)
		}
		for _, pod := range pods {
			r := policy.AggregateCheckResults(checks.EvaluatePod(api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec))
			if !r.Allowed {
				t.Errorf("%s: %s", variant, r.ForbiddenDetail())
			}
			for _, c := range pod.Spec.Containers {
				if !*c.SecurityContext.ReadOnlyRootFilesystem {
					t.Errorf("%s: the root file system of %s can be written", variant, c.Name)
				}
			}
		}
	}
}

// mountedFiles creates the files that filesSecretName and filesConfigMapName would mount.
func mountedFiles(t *testing.T) (folder string) {
	t.Helper()
	folder = t.TempDir()
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(folder, "identities.txt"), key.String()+"\n")
	write(t, filepath.Join(folder, "recipients.txt"), key.Recipient().String()+"\n")
	s := httptest.NewTLSServer(nil)
	defer s.Close()
	write(t, filepath.Join(folder, "ca.pem"), string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})))
	return folder
}

// kubeconfig creates the kubeconfig of a cluster that is never contacted.
func kubeconfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, path, `{"apiVersion": "v1", "kind": "Config", "current-context": "c",
		"clusters": [{"name": "c", "cluster": {"server": "https://192.0.2.1:6443"}}],
		"users": [{"name": "u", "user": {"token": "t"}}],
		"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}]}`)
	return path
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestOneVersion checks that the chart, the images that it names and the backend's default image have the same version,
// and that no image tag floats.
func TestOneVersion(t *testing.T) {
	chart, err := os.ReadFile("chart/Chart.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if want := "\nappVersion: \"" + contract.Release + "\"\n"; !strings.Contains(string(chart), want) {
		t.Errorf("Chart.yaml does not say%s", want)
	}
	if want := image.StorageJob.Tag(); spec.DefaultJobImage != want {
		t.Errorf("the default of job_image is %s, want %s", spec.DefaultJobImage, want)
	}
	text, err := os.ReadFile(golden("minimal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`job_image "` + spec.DefaultJobImage + `"`, `image: "` + image.Gateway.Tag() + `"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the chart does not make %s", want)
		}
	}
	if strings.Contains(string(text), ":latest") {
		t.Error("an image of the chart floats")
	}
}

// TestEveryValueIsInTheSchema checks that the chart's values and their schema have the same top-level keys. Helm
// rejects a misspelt key only if the schema lists all keys.
func TestEveryValueIsInTheSchema(t *testing.T) {
	text, err := os.ReadFile("chart/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := yaml.Unmarshal(text, &values); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile("chart/values.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	var schema struct {
		Properties map[string]any `json:"properties"`
	}
	if err := json.Unmarshal(text, &schema); err != nil {
		t.Fatal(err)
	}
	delete(schema.Properties, "global") // Helm's own value
	for name := range values {
		if schema.Properties[name] == nil {
			t.Errorf("%s is not in the schema", name)
		}
	}
	for name := range schema.Properties {
		if _, there := values[name]; !there {
			t.Errorf("%s is not in values.yaml", name)
		}
	}
}
