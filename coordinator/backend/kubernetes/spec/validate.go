package spec

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/setting"
)

// The smallest sensible sizes, in bytes: with less, nothing starts. The check catches a forgotten unit.
const (
	minMemory  = 6 << 20
	minStorage = 1 << 20
)

// Validate reports everything that is wrong with the options at once. It performs no I/O: a missing class, Secret or
// image is noticed only when it is used.
func (o Options) Validate() error {
	o = o.withDefaults()
	var errs []error
	bad := func(name, format string, args ...any) {
		errs = append(errs, setting.Errorf("kubernetes "+name, format, args...))
	}
	if err := backend.CheckInstallation(o.Installation); err != nil {
		bad("installation", "%w", err)
	}
	for _, image := range []struct{ name, ref string }{{"workspace_image", o.Image}, {"job_image", o.JobImage}} {
		if _, err := reference.ParseNormalizedNamed(image.ref); err != nil {
			bad(image.name, "%q is not an image: write name:tag", image.ref)
		}
	}
	if o.Port < 1 || o.Port > 65535 {
		bad("workspace_port", "%d must be from 1 to 65535", o.Port)
	}
	for _, id := range []struct {
		name string
		n    int64
	}{{"user", o.User}, {"group", o.Group}} {
		if id.n < 1 || id.n > 1<<31-1 {
			bad(id.name, "%d must be from 1 to 2147483647: workspaces never run as root", id.n)
		}
	}
	if o.AccessMode != string(corev1.ReadWriteOnce) && o.AccessMode != string(corev1.ReadWriteOncePod) {
		bad("access_mode", "%q must be %s or %s", o.AccessMode, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
	}
	for _, size := range []struct {
		name     string
		n, least int64
		zero     string
	}{
		{"memory", o.MemoryBytes, minMemory, "0 for no limit, or "},
		{"memory_request", o.MemoryRequestBytes, minMemory, ""},
		{"disk", o.DiskBytes, minStorage, "0 for no limit, or "}, {"home", o.HomeBytes, minStorage, ""},
	} {
		if size.n < size.least && (size.n != 0 || size.zero == "") {
			bad(size.name, "%d bytes must be %sat least %d", size.n, size.zero, size.least)
		}
	}
	if o.MemoryBytes > 0 && o.MemoryRequestBytes > o.MemoryBytes && o.MemoryRequestBytes != DefaultMemoryRequest {
		bad("memory_request", "%d bytes are more than memory, %d", o.MemoryRequestBytes, o.MemoryBytes)
	}
	if o.NanoCPUs > 0 && o.NanoCPUsRequest > o.NanoCPUs && o.NanoCPUsRequest != DefaultCPURequest {
		bad("cpus_request", "%g are more than cpus, %g", float64(o.NanoCPUsRequest)/1e9, float64(o.NanoCPUs)/1e9)
	}
	for _, cpus := range []struct {
		name string
		n    int64
	}{{"cpus", o.NanoCPUs}, {"cpus_request", o.NanoCPUsRequest}, {"job_cpus", o.JobNanoCPUs}} {
		if cpus.n < 0 {
			bad(cpus.name, "must be 0 or more")
		}
	}
	if err := backend.CheckStopGrace(o.StopGrace); err != nil {
		bad("stop_grace", "%w", err)
	}
	for _, name := range []struct{ setting, text string }{
		{"storage_class", o.StorageClass}, {"priority_class", o.PriorityClass}, {"runtime_class", o.RuntimeClass},
		{"dns_namespace", o.DNSNamespace},
	} {
		if name.text != "" && len(validation.IsDNS1123Subdomain(name.text)) > 0 {
			bad(name.setting, "%q must be a name of lower-case letters, digits, '-' and '.'", name.text)
		}
	}
	for _, name := range fields(o.ImagePullSecrets) {
		if len(validation.IsDNS1123Subdomain(name)) > 0 {
			bad("image_pull_secrets", "%q is not the name of a Secret", name)
		}
	}
	for _, labels := range []struct{ setting, text string }{{"node_selector", o.NodeSelector},
		{"gateway_pods", o.GatewayPods}} {
		if _, err := pairs(labels.text); err != nil {
			bad(labels.setting, "%w", err)
		}
	}
	if _, err := tolerations(o.Tolerations); err != nil {
		bad("tolerations", "%w", err)
	}
	if _, err := templated(o); err != nil {
		bad("pod_template", "%w", err)
	}
	if u, err := url.Parse(o.Store); err != nil || o.Store != "" && u.Hostname() == "" {
		bad("store", "%q is not the URL of an object store", o.Store)
	}
	return errors.Join(append(errs, o.Egress.Validate())...)
}

func fields(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ' ' || r == ',' || r == '\t' || r == '\n' })
}

// pairs parses labels in the form name=value.
func pairs(text string) (map[string]string, error) {
	var (
		all  map[string]string
		errs []error
	)
	for _, pair := range fields(text) {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || len(validation.IsQualifiedName(name)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			errs = append(errs, fmt.Errorf("%q is not a label: write name=value", pair))
			continue
		}
		all = With(all, map[string]string{name: value})
	}
	return all, errors.Join(errs...)
}

// tolerations parses taints in kubectl's form.
func tolerations(text string) ([]corev1.Toleration, error) {
	var (
		all  []corev1.Toleration
		errs []error
	)
	for _, taint := range fields(text) {
		rest, effect, _ := strings.Cut(taint, ":")
		key, value, equal := strings.Cut(rest, "=")
		t := corev1.Toleration{
			Key: key, Value: value, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffect(effect),
		}
		if equal {
			t.Operator = corev1.TolerationOpEqual
		}
		switch t.Effect {
		case "", corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
		default:
			key = ""
		}
		if len(validation.IsQualifiedName(key)) > 0 || len(validation.IsValidLabelValue(value)) > 0 {
			errs = append(errs, fmt.Errorf("%q is not a taint: write key=value:NoSchedule, key:NoExecute or key",
				taint))
			continue
		}
		all = append(all, t)
	}
	return all, errors.Join(errs...)
}
