package spec_test

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

func TestValidate(t *testing.T) {
	for name, o := range map[string]spec.Options{"plain": plain(), "full": full()} {
		if err := o.Validate(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for want, change := range map[string]func(*spec.Options){
		`installation: "A"`:                func(o *spec.Options) { o.Installation = "A" },
		`workspace_image: ""`:              func(o *spec.Options) { o.Image = "" },
		`job_image: "a b"`:                 func(o *spec.Options) { o.JobImage = "a b" },
		"workspace_port: 65536":            func(o *spec.Options) { o.Port = 65536 },
		"user: -1":                         func(o *spec.Options) { o.User = -1 },
		"group: 4294967296":                func(o *spec.Options) { o.Group = 1 << 32 },
		`access_mode: "ReadWriteMany"`:     func(o *spec.Options) { o.AccessMode = "ReadWriteMany" },
		"memory: 2 bytes":                  func(o *spec.Options) { o.MemoryBytes = 2 },
		"memory_request: 2 bytes":          func(o *spec.Options) { o.MemoryRequestBytes = 2 },
		"memory_request: 3221225472 bytes": func(o *spec.Options) { o.MemoryBytes, o.MemoryRequestBytes = 2<<30, 3<<30 },
		"cpus_request: 3 are more":         func(o *spec.Options) { o.NanoCPUs, o.NanoCPUsRequest = 2e9, 3e9 },
		"cpus: must be 0":                  func(o *spec.Options) { o.NanoCPUs = -1 },
		"job_cpus: must be 0":              func(o *spec.Options) { o.JobNanoCPUs = -1 },
		"disk: 2 bytes":                    func(o *spec.Options) { o.DiskBytes = 2 },
		"home: 2 bytes":                    func(o *spec.Options) { o.HomeBytes = 2 },
		`storage_class: "A b"`:             func(o *spec.Options) { o.StorageClass = "A b" },
		`priority_class: "A"`:              func(o *spec.Options) { o.PriorityClass = "A" },
		`runtime_class: "A"`:               func(o *spec.Options) { o.RuntimeClass = "A" },
		`dns_namespace: "A"`:               func(o *spec.Options) { o.DNSNamespace = "A" },
		`image_pull_secrets: "B"`:          func(o *spec.Options) { o.ImagePullSecrets = "a,B" },
		`node_selector: "pool"`:            func(o *spec.Options) { o.NodeSelector = "a=b pool" },
		`gateway_pods: "=x"`:               func(o *spec.Options) { o.GatewayPods = "=x" },
		`tolerations: "a:Never"`:           func(o *spec.Options) { o.Tolerations = "a:Never" },
		`tolerations: ":NoSchedule"`:       func(o *spec.Options) { o.Tolerations = ":NoSchedule" },
		"pod_template: is neither":         func(o *spec.Options) { o.PodTemplate = "a: [" },
		`store: "nowhere"`:                 func(o *spec.Options) { o.Store = "nowhere" },
		"egress allow: ":                   func(o *spec.Options) { o.Egress.Allow = "name" },
	} {
		o := plain()
		change(&o)
		err := o.Validate()
		if !strings.HasPrefix(want, "egress") {
			want = "kubernetes " + want
		}
		if err == nil || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v, want %s…", err, want)
		}
	}
}

// TestPodTemplateRefuses: a template must not change the fields that protect files and separate users. The error names
// the field.
func TestPodTemplateRefuses(t *testing.T) {
	for template, want := range map[string]string{
		"metadata: {name: x}":           "metadata.name",
		"metadata: {generateName: x}":   "metadata.generateName",
		"metadata: {namespace: x}":      "metadata.namespace",
		"metadata: {finalizers: [x/y]}": "metadata.finalizers",
		"metadata: {ownerReferences: [{name: a, uid: b, kind: c, apiVersion: d}]}": "metadata.ownerReferences",
		"metadata: {labels: {codehub.dev/workspace: x}}":                           "metadata.labels[codehub.dev/workspace]",
		"metadata: {labels: {codehub.dev/new: x}}":                                 "metadata.labels[codehub.dev/new]",
		"metadata: {annotations: {codehub.dev/spec: x}}":                           "metadata.annotations[codehub.dev/spec]",
		"kind: Deployment":                           "apiVersion and kind",
		"status: {phase: Failed}":                    "status",
		"spec: {restartPolicy: Always}":              "spec.restartPolicy",
		"spec: {hostname: x}":                        "spec.hostname",
		"spec: {setHostnameAsFQDN: true}":            "spec.setHostnameAsFQDN",
		"spec: {nodeName: x}":                        "spec.nodeName",
		"spec: {automountServiceAccountToken: true}": "spec.automountServiceAccountToken",
		"spec: {schedulingGates: null}":              "spec.schedulingGates[codehub.dev/volume]",
		"spec: {schedulingGates: [{name: codehub.dev/volume, $patch: delete}]}": "spec.schedulingGates[codehub.dev/volume]",
		"spec: {volumes: null}":                                                                                                            "spec.volumes[home]",
		"spec: {volumes: [{name: home, $patch: delete}]}":                                                                                  "spec.volumes[home]",
		"spec: {volumes: [{name: home, emptyDir: {}}]}":                                                                                    "spec.volumes[home]",
		"spec: {volumes: [{name: home, persistentVolumeClaim: {claimName: x}}]}":                                                           "spec.volumes[home]",
		"spec: {volumes: [{name: a, persistentVolumeClaim: {claimName: ws-x-home}}]}":                                                      "spec.volumes[a] to a home",
		"spec: {containers: [{name: workspace, restartPolicy: Always}]}":                                                                   "spec.containers[workspace].restartPolicy",
		"spec: {containers: [{name: workspace, restartPolicyRules: [{action: Restart}]}]}":                                                 "spec.containers[workspace].restartPolicyRules",
		"spec: {containers: [{name: workspace, $patch: delete}]}":                                                                          "spec.containers[workspace]",
		"spec: {containers: [{name: workspace, image: x}]}":                                                                                "spec.containers[workspace].image",
		"spec: {containers: [{name: workspace, args: [x]}]}":                                                                               "spec.containers[workspace].args",
		"spec: {containers: [{name: workspace, volumeMounts: [{mountPath: /home/coder, name: x}]}]}":                                       "spec.containers[workspace].volumeMounts[home]",
		"spec: {containers: [{name: workspace, volumeMounts: [{mountPath: /x, name: home}]}]}":                                             "spec.containers[workspace].volumeMounts[home]",
		"spec: {containers: [{name: workspace, volumeMounts: [{mountPath: /home/coder/, name: x}]}]}":                                      "spec.containers[workspace].volumeMounts[home]",
		"spec: {containers: [{name: workspace, volumeMounts: [{mountPath: /home/coder/a, name: home, subPath: home/b}]}]}":                 "spec.containers[workspace].volumeMounts[home]",
		"spec: {containers: [{name: workspace, volumeMounts: [{mountPath: /home/coder/a, name: home, subPath: home/a, readOnly: true}]}]}": "spec.containers[workspace].volumeMounts[home]",
		"spec: {containers: [{name: workspace, volumeMounts: [{mountPath: /home/coder/a, name: home, subPathExpr: home/a}]}]}":             "spec.containers[workspace].volumeMounts[home]",
		"spec: {containers: [{name: workspace, volumeMounts: [{mountPath: /srv/a, name: home, subPath: home/a}]}]}":                        "spec.containers[workspace].volumeMounts[home]",
		"spec: {containers: [{name: workspace, volumeMounts: null}]}":                                                                      "spec.containers[workspace].volumeMounts[home]",

		"spec: {nodeselector: {a: b}}":                       `unknown field "spec.nodeselector"`,
		"template: {spec: {}}":                               `unknown field "template"`,
		"spec: {replicas: 2}":                                `unknown field "spec.replicas"`,
		"spec: {terminationGracePeriodSeconds: x}":           "terminationGracePeriodSeconds",
		"spec: {terminationGracePeriodSeconds: 61}":          "spec.terminationGracePeriodSeconds: 61 must be from 0 to 60",
		"spec: {terminationGracePeriodSeconds: -1}":          "spec.terminationGracePeriodSeconds: -1 must be from 0 to 60",
		"spec: {terminationGracePeriodSeconds: 10000000000}": "remove it for stop_grace",

		"spec: x":    "no Pod template",
		"[]":         "no Pod template",
		"a: 1\na: 2": "neither YAML nor JSON",

		"spec: {hostNetwork: true}":                                                                    "hostNetwork",
		"spec: {hostPID: true}":                                                                        "hostPID",
		"spec: {securityContext: null}":                                                                "runAsNonRoot",
		"spec: {securityContext: {runAsUser: 0}}":                                                      "runAsUser=0",
		"spec: {securityContext: {seccompProfile: {type: Unconfined}}}":                                "seccompProfile",
		"spec: {volumes: [{name: a, hostPath: {path: /}}]}":                                            "hostPath",
		"spec: {containers: [{name: workspace, securityContext: {privileged: true}}]}":                 "privileged",
		"spec: {containers: [{name: workspace, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]}": "SYS_ADMIN",
		"spec: {containers: [{name: workspace, securityContext: null}]}":                               "allowPrivilegeEscalation",
		"spec: {containers: [{name: other, image: x}]}":                                                `container "other"`,
		"spec: {initContainers: [{name: before, image: x}]}":                                           `container "before"`,
	} {
		o := plain()
		o.PodTemplate = template
		err := o.Validate()
		if err == nil || !strings.HasPrefix(err.Error(), "kubernetes pod_template: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want one about %s", template, err, want)
		}
	}
}

// TestPodTemplate: a template cannot change the workspace's own values, but it can change everything else.
func TestPodTemplate(t *testing.T) {
	o := plain()
	o.NodeSelector = "a=b"
	o.PodTemplate = `{"apiVersion": "v1", "kind": "Pod", "spec": {"nodeSelector": {"c": "d"}, "terminationGracePeriodSeconds": 5, "serviceAccountName": "x",
		"schedulingGates": [{"name": "example.com/other"}],
		"containers": [{"name": "workspace", "env": [{"name": "A", "value": "template"}, {"name": "C", "value": "3"}], "ports": [{"containerPort": 8890}],
			"readinessProbe": {"httpGet": {"path": "/healthz", "port": 8890}}}]}}`
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	p := pod(t, o, start())
	c := p.Spec.Containers[0]
	env := map[string]string{}
	for _, v := range c.Env {
		env[v.Name] = v.Value
	}
	if env["A"] != "2" || env["C"] != "3" || len(c.Env) != 3 || len(c.Ports) != 1 {
		t.Errorf("environment %v, ports %v", c.Env, c.Ports)
	}
	if p.Name != id.ContainerName() || c.Image != "notebook:1" || p.Spec.Hostname != "my-project" || p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName != id.VolumeName() {
		t.Errorf("a workspace's own is lost: %+v", p)
	}
	if p.Spec.NodeSelector["a"] != "b" || p.Spec.NodeSelector["c"] != "d" || *p.Spec.TerminationGracePeriodSeconds != 5 || len(p.Spec.SchedulingGates) != 2 || c.ReadinessProbe == nil {
		t.Errorf("the template is not merged: %+v", p.Spec)
	}
	if !spec.Owns(p.Labels, o.Installation, id, spec.KindWorkspace) {
		t.Errorf("labels %v", p.Labels)
	}
}
