package deploy_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/codehub/gateway/coordinator/devenv"
)

// misspelt are values with an unknown key or a wrong type, each with a part of the error.
var misspelt = map[string]string{
	"replica: 3":                                                     "'replica'",
	"hostNetwork: true":                                              "'hostNetwork'",
	"image: {tags: x}":                                               "'tags'",
	"image: {pullPolicy: Sometimes}":                                 "/image/pullPolicy",
	"imagePullSecrets: [{nam: registry}]":                            "'nam'",
	"imagePullSecrets: registry":                                     "/imagePullSecrets",
	"resources: {limit: {memory: 1Gi}}":                              "'limit'",
	"resources: {limits: {memory: 1GiB}}":                            "1GiB",
	"affinity: {nodeAffinty: {}}":                                    "'nodeAffinty'",
	"tolerations: [{keys: a}]":                                       "'keys'",
	"nodeSelector: {ssd: true}":                                      "/nodeSelector/ssd",
	"podAnnotations: {a: 1}":                                         "/podAnnotations/a",
	"topologySpreadConstraints: [{maxSkews: 1}]":                     "'maxSkews'",
	"hostAliases: [{ip: 10.0.0.5, hostname: a}]":                     "'hostname'",
	"extraEnv: [{name: A, valueFrom: {secretRef: {}}}]":              "'secretRef'",
	"extraEnv: [{name: A, value: 1}]":                                "/extraEnv/0/value",
	"envFrom: [{secret: {name: a}}]":                                 "'secret'",
	"extraVolumes: [{name: a, configmap: {name: a}}]":                "'configmap'",
	"extraVolumeMounts: [{name: a, path: /a}]":                       "'path'",
	"initContainers: [{name: a, commands: [a]}]":                     "'commands'",
	"initContainers: [{name: a, ports: [{hostPort: 80}]}]":           "hostPort",
	"podSecurityContext: {runAsUsr: 1}":                              "'runAsUsr'",
	"securityContext: {privilege: true}":                             "'privilege'",
	"networkPolicy: {from: [{namespaceSelectors: {}}]}":              "'namespaceSelectors'",
	"metrics: {from: [{podSelector: {matchLabel: {}}}]}":             "'matchLabel'",
	"httpRoute: {parentRefs: [{nam: a}]}":                            "'nam'",
	"service: {nodeport: 30000}":                                     "'nodeport'",
	"service: {ipFamilies: [IPv5]}":                                  "/service/ipFamilies/0",
	"service: {loadBalancerSourceRanges: [203.0.113.1]}":             "/service/loadBalancerSourceRanges/0",
	"service: {labels: {a: true}}":                                   "/service/labels/a",
	"serviceAccount: {annotation: {}}":                               "'annotation'",
	"podDisruptionBudget: {maxUnavailable: half}":                    "/podDisruptionBudget/maxUnavailable",
	"autoscaling: {minReplicas: 0}":                                  "/autoscaling/minReplicas",
	"autoscaling: {behavior: {scaleIn: {}}}":                         "'scaleIn'",
	"autoscaling: {metrics: [{type: Pods, pod: {}}]}":                "'pod'",
	"prePull: {image: [a]}":                                          "'image'",
	"prePull: {resources: {request: {}}}":                            "'request'",
	"podTemplate: {spce: {}}":                                        "'spce'",
	"podTemplate: {spec: {hostNetwork: true}}":                       "/podTemplate/spec/hostNetwork",
	"podTemplate: {spec: {hostPID: true}}":                           "/podTemplate/spec/hostPID",
	"podTemplate: {spec: {hostIPC: true}}":                           "/podTemplate/spec/hostIPC",
	"podTemplate: {spec: {containers: [{prots: []}]}}":               "'prots'",
	"podTemplate: {spec: {containers: [{ports: [{hostPort: 80}]}]}}": "hostPort",
	"podTemplate: {metadata: {label: {}}}":                           "'label'",
	"kubernetes: {images_pull_secrets: a}":                           "'images_pull_secrets'",
	"kubernetes: {home: 2Gii}":                                       "/kubernetes/home",
	"codehub: {limits: {max_runing_global: 1}}":                      "'max_runing_global'",
	"images: [{name: a, reference: a, prot: 1}]":                     "'prot'",
}

// right are valid values that an overly strict schema might reject.
var right = []string{
	"kubernetes: {home: 2Gi, memory: 512Mi, disk: 10Gi, memory_request: 1GiB}",
	"resources: {limits: {memory: 1Gi, cpu: 2, nvidia.com/gpu: 1}, requests: {cpu: 0.5, memory: 1e9}}",
	"imagePullSecrets: [registry, {name: mirror}]",
	"podTemplate: {spec: {hostNetwork: false, containers: [{name: workspace, $patch: merge, lifecycle: {postStart: {exec: {command: [a]}}}}]}}",
	"podTemplate: {apiVersion: v1, kind: Pod, metadata: {labels: {a: b}, annotations: {c: d}}}",
	"podTemplate: {spec: {$retainKeys: [a], volumes: [{name: a, csi: {driver: d, volumeAttributes: {x: z}}}]}}",
	"extraVolumes: [{name: a, projected: {sources: [{serviceAccountToken: {path: a}}]}}, {name: b, image: {reference: c}}]",
	"podSecurityContext: {runAsUser: null, seLinuxOptions: {level: a}}",
	"podDisruptionBudget: {maxUnavailable: 50%}",
	"podDisruptionBudget: {minAvailable: 1, maxUnavailable: 0}",
	"initContainers: [{name: a, image: b, startupProbe: {httpGet: {path: /, port: http}}, restartPolicy: Always}]",
}

// TestTheSchemaRefusesMisspeltValues checks that the schema rejects unknown keys in every object whose keys are fixed,
// and accepts any key in the other objects.
func TestTheSchemaRefusesMisspeltValues(t *testing.T) {
	compiled, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	validate := func(text string) error {
		asJSON, err := yaml.ToJSON([]byte(text))
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		values := map[string]any{"public_url": "https://codehub.example.com", "secretName": "codehub"}
		if err := json.Unmarshal(asJSON, &values); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		return compiled.Validate(values)
	}
	for text, part := range misspelt {
		if err := validate(text); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%s: %v, want an error with %s", text, err, part)
		}
	}
	for _, text := range right {
		if err := validate(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestHelmSaysWhatToWrite checks that each error that the chart's own checks report names the setting, its value and
// the remedy.
func TestHelmSaysWhatToWrite(t *testing.T) {
	if !devenv.OnKubernetes() {
		t.Skip("`make test-k8s` brings Helm")
	}
	minimal := filepath.Join("chart", "testdata", "minimal.values.yaml")
	render := func(set string) error {
		_, err := helm(t, "template", "codehub", "chart", "--values", minimal, "--set", set)
		return err
	}
	const write = ": write its name in lower case"
	for set, want := range map[string]string{
		"image.repository=":                                                      `image.repository: "" is not the name of an image: write`,
		"image.repository=Codehub/gateway":                                       `image.repository: "Codehub/gateway" is not the name of an image: write it in lower case`,
		"image.repository=codehub/gate way":                                      `image.repository: "codehub/gate way" is not`,
		"image.repository=codehub/gateway:1":                                     "has a tag or a digest: write that into image.tag",
		"image.tag=a b":                                                          `image.tag: "a b" is not a tag: write`,
		"image.tag=-a":                                                           `image.tag: "-a" is not a tag`,
		"kubernetes.workspace_image=":                                            `kubernetes.workspace_image: "" is not an image` + write,
		"kubernetes.workspace_image=Team/code:1":                                 `"Team/code:1" is not an image` + write,
		"kubernetes.workspace_image=team/code:":                                  `"team/code:" is not an image`,
		"kubernetes.workspace_image=https://a/b":                                 `"https://a/b" is not an image`,
		"kubernetes.job_image=a:b:c":                                             `kubernetes.job_image: "a:b:c" is not an image` + write,
		"kubernetes.job_image=a@sha256:12":                                       `"a@sha256:12" is not an image`,
		"images[0].name=a,images[0].reference=a b":                               `images[0].reference: "a b" is not an image` + write,
		"prePull.images={A}":                                                     `prePull.images[0]: "A" is not an image`,
		"initContainers[0].image=A":                                              `initContainers[0].image: "A" is not an image`,
		"podTemplate.spec.containers[0].image=A":                                 `podTemplate.spec.containers[0].image: "A" is not an image`,
		`prePull.enabled=true,kubernetes.job_image=\{env.X\}`:                    "write the value itself",
		"podDisruptionBudget.maxUnavailable=0":                                   "podDisruptionBudget.maxUnavailable: 0 lets no gateway be evicted",
		"podDisruptionBudget.maxUnavailable=0%":                                  "write 1 or more",
		"podDisruptionBudget.minAvailable=2":                                     "minAvailable: 2 of 2 gateways (replicas) lets none be evicted",
		"podDisruptionBudget.minAvailable=51%":                                   "write less",
		"podDisruptionBudget.minAvailable=1,replicas=1":                          "no node with one could be drained",
		"podDisruptionBudget.minAvailable=2,replicas=5,autoscaling.enabled=true": "(autoscaling.minReplicas)",
		"autoscaling.enabled=true,autoscaling.maxReplicas=1":                     "autoscaling.maxReplicas: 1 is less than autoscaling.minReplicas",
		"service.nodePort=30000":                                                 "service.nodePort: a Service of type ClusterIP has none: leave it out, or write",
		"service.loadBalancerClass=a":                                            "service.loadBalancerClass: a Service of type ClusterIP has none",
		"service.type=NodePort,service.loadBalancerSourceRanges={10.0.0.0/8}":    "a Service of type NodePort has none",
		"service.externalTrafficPolicy=Local":                                    "service.externalTrafficPolicy",
		`podLabels.app\.kubernetes\.io/name=a`:                                   "podLabels: the chart itself sets app.kubernetes.io/name: leave it out",
		`service.labels.helm\.sh/chart=a`:                                        "service.labels: the chart itself sets helm.sh/chart",
	} {
		if err := render(set); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v, want an error with %s", set, err, want)
		}
	}
	digest := strings.Repeat("0123456789abcdef", 4)
	for _, set := range []string{
		"image.repository=registry:5000/codehub/gateway", "image.repository=Registry.Example.com/a_b/c-d",
		"image.repository=localhost/a", "image.repository=[::1]:5000/a",
		"kubernetes.workspace_image=a", "kubernetes.workspace_image=a:1@sha256:" + digest,
		`kubernetes.workspace_image=\{env.IMAGE\}`, "kubernetes.workspace_image=null",
		"podDisruptionBudget.minAvailable=50%", "podDisruptionBudget.minAvailable=2,replicas=0",
		"podDisruptionBudget.minAvailable=1,podDisruptionBudget.maxUnavailable=0",
		"service.type=NodePort,service.nodePort=30000,service.externalTrafficPolicy=Local", "codehub=null", "kubernetes=null", "gateway=null", "podTemplate=null",
	} {
		if err := render(set); err != nil {
			t.Errorf("--set %s: %v", set, err)
		}
	}
}
