package deploy_test

import (
	"path"
	"reflect"
	"strings"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// kubernetesValues are the chart's values that have the form of a Kubernetes type. Their schemas are generated from
// these types. So Helm reports a misspelt key before the cluster does, or before the gateway does in the case of a Pod
// template.
var kubernetesValues = map[string]reflect.Type{
	"affinity":                   reflect.TypeFor[corev1.Affinity](),
	"envFrom":                    reflect.TypeFor[[]corev1.EnvFromSource](),
	"extraEnv":                   reflect.TypeFor[[]corev1.EnvVar](),
	"extraVolumeMounts":          reflect.TypeFor[[]corev1.VolumeMount](),
	"extraVolumes":               reflect.TypeFor[[]corev1.Volume](),
	"hostAliases":                reflect.TypeFor[[]corev1.HostAlias](),
	"initContainers":             reflect.TypeFor[[]corev1.Container](),
	"nodeSelector":               reflect.TypeFor[map[string]string](),
	"podAnnotations":             reflect.TypeFor[map[string]string](),
	"deploymentAnnotations":      reflect.TypeFor[map[string]string](),
	"podLabels":                  reflect.TypeFor[map[string]string](),
	"podSecurityContext":         reflect.TypeFor[corev1.PodSecurityContext](),
	"podTemplate":                reflect.TypeFor[corev1.Pod](),
	"resources":                  reflect.TypeFor[corev1.ResourceRequirements](),
	"securityContext":            reflect.TypeFor[corev1.SecurityContext](),
	"tolerations":                reflect.TypeFor[[]corev1.Toleration](),
	"topologySpreadConstraints":  reflect.TypeFor[[]corev1.TopologySpreadConstraint](),
	"autoscaling behavior":       reflect.TypeFor[autoscalingv2.HorizontalPodAutoscalerBehavior](),
	"autoscaling metrics":        reflect.TypeFor[[]autoscalingv2.MetricSpec](),
	"httpRoute annotations":      reflect.TypeFor[map[string]string](),
	"ingress annotations":        reflect.TypeFor[map[string]string](),
	"metrics from":               reflect.TypeFor[[]networkingv1.NetworkPolicyPeer](),
	"networkPolicy from":         reflect.TypeFor[[]networkingv1.NetworkPolicyPeer](),
	"prePull resources":          reflect.TypeFor[corev1.ResourceRequirements](),
	"service annotations":        reflect.TypeFor[map[string]string](),
	"service labels":             reflect.TypeFor[map[string]string](),
	"serviceAccount annotations": reflect.TypeFor[map[string]string](),
	"serviceAccount labels":      reflect.TypeFor[map[string]string](),
}

// ofTheNode are the fields that would give a Pod access to the network or the processes of its node. Each field is
// mapped to the one value that is harmless.
var ofTheNode = map[reflect.Type]map[string]any{
	reflect.TypeFor[corev1.PodSpec]():       {"hostNetwork": false, "hostPID": false, "hostIPC": false},
	reflect.TypeFor[corev1.ContainerPort](): {"hostPort": 0.0},
}

// kubernetesSchema returns the schema of a Kubernetes type. It adds the schemas of all structs in that type to defs.
func kubernetesSchema(typ reflect.Type, defs schema) schema {
	nullable := func(kind string, more schema) schema {
		s := schema{"type": []any{kind, "null"}}
		for name, value := range more {
			s[name] = value
		}
		return s
	}
	switch typ {
	case reflect.TypeFor[resource.Quantity]():
		return schema{"type": []any{"string", "number", "null"}, "pattern": `^[-+]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][-+]?[0-9]+)?$`}
	case reflect.TypeFor[intstr.IntOrString]():
		return schema{"type": []any{"string", "integer", "null"}}
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[[]byte]():
		return nullable("string", nil)
	}
	switch typ.Kind() {
	case reflect.Pointer:
		return kubernetesSchema(typ.Elem(), defs)
	case reflect.String:
		return nullable("string", nil)
	case reflect.Bool:
		return nullable("boolean", nil)
	case reflect.Int32, reflect.Int64:
		return nullable("integer", nil)
	case reflect.Slice:
		return nullable("array", schema{"items": kubernetesSchema(typ.Elem(), defs)})
	case reflect.Map:
		return nullable("object", schema{"additionalProperties": kubernetesSchema(typ.Elem(), defs)})
	}
	name := path.Base(path.Dir(typ.PkgPath())) + "." + typ.Name()
	if defs[name] == nil {
		properties := schema{}
		// Keys such as $patch control the merge of a Pod template.
		s := nullable("object", schema{"additionalProperties": false, "properties": properties, "patternProperties": schema{`^\$`: schema{}}})
		defs[name] = s // before its fields, which may have the same type
		addFields(properties, typ, defs)
		for field, off := range ofTheNode[typ] {
			properties[field] = schema{"const": off, "description": "No Pod has the node's network or processes"}
		}
	}
	return schema{"$ref": "#/$defs/" + name}
}

// addFields adds the fields of a struct, including those of embedded structs.
func addFields(properties schema, typ reflect.Type, defs schema) {
	for field := range typ.Fields() {
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		switch {
		case name == "" && field.Anonymous:
			addFields(properties, field.Type, defs)
		case name == "status" || name == "managedFields": // only the cluster sets these
		case name != "" && name != "-":
			properties[name] = kubernetesSchema(field.Type, defs)
		}
	}
}
