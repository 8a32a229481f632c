package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/codehub/gateway/coordinator/backend"
)

// templated returns the common part of all workspaces' Pods: the result of [base], with the Pod template merged into
// it. The error names a field that the template must not set.
func templated(o Options) (*corev1.Pod, error) {
	ours := base(o)
	if strings.TrimSpace(o.PodTemplate) == "" {
		return ours, nil
	}
	patch, err := yaml.YAMLToJSONStrict([]byte(o.PodTemplate))
	if err != nil {
		return nil, fmt.Errorf("is neither YAML nor JSON: %w", err)
	}
	if !bytes.HasPrefix(bytes.TrimSpace(patch), []byte("{")) {
		return nil, errors.New("is no Pod template: write metadata: and spec: as in a Pod")
	}
	text, err := json.Marshal(ours)
	if err != nil {
		return nil, err
	}
	merged, err := strategicpatch.StrategicMergePatch(text, patch, &corev1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("cannot be merged into a Pod: %w", err)
	}
	p := &corev1.Pod{}
	unknown, err := kjson.UnmarshalStrict(merged, p)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return nil, fmt.Errorf("is no Pod template: %w", err)
	}
	if err := errors.Join(taken(ours, p), endsInTime(p), secure(p)); err != nil {
		return nil, err
	}
	return p, nil
}

// endsInTime returns an error if the template's grace period is longer than [backend.CheckStopGrace] allows.
func endsInTime(p *corev1.Pod) error {
	longest := int64(backend.MaxStopGrace / time.Second)
	if grace := p.Spec.TerminationGracePeriodSeconds; grace != nil && (*grace < 0 || *grace > longest) {
		return fmt.Errorf("spec.terminationGracePeriodSeconds: %d must be from 0 to %d: a stop fails that takes longer than its limit; "+
			"write a smaller number, or remove it for stop_grace", *grace, longest)
	}
	return nil
}

// taken returns an error for each field of the template that the operator must not set. These fields define a Pod's
// owner and its programs, or prevent two Pods from using one volume at the same time.
func taken(ours, p *corev1.Pod) error {
	var errs []error
	keep := func(field string, ours, its any) {
		if !reflect.DeepEqual(ours, its) {
			errs = append(errs, fmt.Errorf("must not set or change %s: remove it from the template", field))
		}
	}
	keep("apiVersion and kind, but to v1 and Pod,", ours.TypeMeta, p.TypeMeta)
	keep("metadata.name", ours.Name, p.Name)
	keep("metadata.generateName", ours.GenerateName, p.GenerateName)
	keep("metadata.namespace", ours.Namespace, p.Namespace)
	keep("metadata.ownerReferences", ours.OwnerReferences, p.OwnerReferences)
	keep("metadata.finalizers", ours.Finalizers, p.Finalizers)
	keep("status", ours.Status, p.Status)
	for _, m := range []struct {
		field string
		names map[string]string
	}{{"metadata.labels", p.Labels}, {"metadata.annotations", p.Annotations}} {
		for _, name := range slices.Sorted(maps.Keys(m.names)) {
			if strings.HasPrefix(name, prefix) {
				keep(m.field+"["+name+"]", nil, name)
			}
		}
	}
	keep("spec.restartPolicy", ours.Spec.RestartPolicy, p.Spec.RestartPolicy)
	keep("spec.hostname", ours.Spec.Hostname, p.Spec.Hostname)
	keep("spec.setHostnameAsFQDN", ours.Spec.SetHostnameAsFQDN, p.Spec.SetHostnameAsFQDN)
	keep("spec.nodeName", ours.Spec.NodeName, p.Spec.NodeName)
	keep("spec.automountServiceAccountToken", ours.Spec.AutomountServiceAccountToken,
		p.Spec.AutomountServiceAccountToken)
	keep("spec.schedulingGates["+Gate+"]", true, slices.Contains(p.Spec.SchedulingGates, ours.Spec.SchedulingGates[0]))
	home := slices.IndexFunc(p.Spec.Volumes, func(v corev1.Volume) bool { return v.Name == volumeHome })
	keep("spec.volumes["+volumeHome+"]", true, home >= 0 &&
		reflect.DeepEqual(p.Spec.Volumes[home], ours.Spec.Volumes[0]))
	for _, v := range p.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil && strings.HasPrefix(c.ClaimName, "ws-") {
			keep("spec.volumes["+v.Name+"] to a home", nil, v.Name)
		}
	}
	c := workspaceContainer(p)
	if c == nil {
		keep("spec.containers["+Container+"]", true, false)
		return errors.Join(errs...)
	}
	first := ours.Spec.Containers[0]
	keep("spec.containers["+Container+"].image, which is a setting,", first.Image, c.Image)
	keep("spec.containers["+Container+"].args, which is the image's command in the settings,", first.Args, c.Args)
	keep("spec.containers["+Container+"].restartPolicy", first.RestartPolicy, c.RestartPolicy)
	keep("spec.containers["+Container+"].restartPolicyRules", first.RestartPolicyRules, c.RestartPolicyRules)
	keep("spec.containers["+Container+"].volumeMounts["+volumeHome+"]", ofHome(first), ofHome(*c))
	return errors.Join(errs...)
}

// ofHome returns the mounts of the home. A folder of the home that is mounted at its own place shows the same files.
// Mounting it only keeps a runtime from mounting one of the image's declared volumes there (SPEC 7).
func ofHome(c corev1.Container) []corev1.VolumeMount {
	return slices.DeleteFunc(slices.Clone(c.VolumeMounts), func(m corev1.VolumeMount) bool {
		folder, inside := strings.CutPrefix(path.Clean(m.MountPath), Home+"/")
		itsOwn := inside && reflect.DeepEqual(m, corev1.VolumeMount{
			Name: volumeHome, MountPath: m.MountPath, SubPath: path.Join(Folder, folder),
		})
		return itsOwn || m.Name != volumeHome && path.Clean(m.MountPath) != Home
	})
}

// prefix is the prefix of our labels and annotations.
const prefix = "codehub.dev/"

// secure refuses a Pod that is less secure than Pod Security's level "restricted".
func secure(p *corev1.Pod) error {
	checks, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		return err
	}
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	if r := policy.AggregateCheckResults(checks.EvaluatePod(level, &p.ObjectMeta, &p.Spec)); !r.Allowed {
		return fmt.Errorf("makes Pods less secure than Pod Security's level \"restricted\": %s", r.ForbiddenDetail())
	}
	return nil
}
