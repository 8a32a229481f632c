// Package doctor checks a cluster for `caddy codehub doctor`: whether the cluster answers, what this account may do
// there, and whether the cluster works as workspaces require.
//
// It owns the table of these checks ([Doctor.Checks]), and the meaning and remedy of each finding. It also owns the
// list of rights that the backend needs ([Rules]). It must not change anything but its own short-lived objects.
package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/enforcement"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// Doctor examines a cluster. Its methods fail when the cluster does not answer.
type Doctor struct {
	client *cluster.Client
	spec   spec.Options
}

// New returns a doctor for the cluster that the options name. It performs no I/O.
func New(c cluster.Options, s spec.Options) (*Doctor, error) {
	client, err := cluster.Connect(c)
	if err != nil {
		return nil, err
	}
	return &Doctor{client: client, spec: s}, nil
}

// Close releases connections.
func (d *Doctor) Close() error { return d.client.Close() }

// Namespace is the namespace of workspaces.
func (d *Doctor) Namespace() string { return d.client.Namespace() }

// Version is a cluster's version.
type Version struct {
	Text         string `json:"gitVersion"`
	Major, Minor string // a provider's Minor may end with a "+"
}

// Version asks the cluster for its version.
func (d *Doctor) Version(ctx context.Context) (v Version, err error) {
	return v, d.get(ctx, "asking the cluster for its version", "/version", &v)
}

// Identity returns the cluster's identity.
func (d *Doctor) Identity(ctx context.Context) (string, error) { return d.client.Identity(ctx) }

// Nodes counts the cluster's nodes, and those that accept Pods. If this account may not read nodes, known is false.
func (d *Doctor) Nodes(ctx context.Context) (ready, all int, known bool, err error) {
	var list corev1.NodeList
	err = d.get(ctx, "listing nodes", "/api/v1/nodes", &list)
	if apierrors.IsForbidden(err) {
		return 0, 0, false, nil
	}
	for _, n := range list.Items {
		for _, c := range n.Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue && !n.Spec.Unschedulable {
				ready++
			}
		}
	}
	return ready, len(list.Items), true, err
}

// defaultClass is the annotation of the cluster's default class.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// StorageClass returns the class of the homes, or nil if there is none. known is false if this account may not read
// storage classes.
func (d *Doctor) StorageClass(ctx context.Context) (class *storagev1.StorageClass, known bool, err error) {
	var list storagev1.StorageClassList
	err = d.get(ctx, "listing storage classes", "/apis/storage.k8s.io/v1/storageclasses", &list)
	if apierrors.IsForbidden(err) {
		return nil, false, nil
	}
	for i, c := range list.Items {
		switch {
		case d.spec.StorageClass != "" && c.Name == d.spec.StorageClass:
			return &list.Items[i], true, nil
		case d.spec.StorageClass != "" || c.Annotations[defaultClass] != "true":
		case class == nil || class.CreationTimestamp.Before(&c.CreationTimestamp): // the cluster uses the newest
			class = &list.Items[i]
		}
	}
	return class, true, err
}

// Missing returns the rights in [Rules] that this account lacks.
func (d *Doctor) Missing(ctx context.Context) (missing []Right, err error) {
	for _, r := range Rules() {
		review := authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{
				Group: r.Group, Resource: r.Resource, Subresource: r.Subresource, Verb: r.Verb, Name: r.Name,
			},
		}}
		review.Kind, review.APIVersion = "SelfSubjectAccessReview", "authorization.k8s.io/v1"
		if r.Name == "" {
			review.Spec.ResourceAttributes.Namespace = d.Namespace()
		}
		body, err := json.Marshal(review)
		if err != nil {
			return nil, fmt.Errorf("asking for a right: %w", err)
		}
		text, err := d.client.Raw(ctx, http.MethodPost, "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body)
		if err == nil {
			err = json.Unmarshal(text, &review)
		}
		if err != nil {
			return nil, cluster.Wrap("asking what this account may do", err)
		}
		if !review.Status.Allowed {
			missing = append(missing, r)
		}
	}
	return missing, nil
}

// get reads a path of the API.
func (d *Doctor) get(ctx context.Context, doing, path string, into any) error {
	text, err := d.client.Raw(ctx, http.MethodGet, path, nil)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return cluster.Wrap(doing, err)
}

// Policies returns the names of the required NetworkPolicies, and of the missing ones.
func (d *Doctor) Policies(ctx context.Context) (all, missing []string, err error) {
	for _, p := range spec.NetworkPolicies(d.spec) {
		all = append(all, p.Name)
		_, err := d.client.NetworkPolicies.Get(ctx, p.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, p.Name)
		case err != nil:
			return nil, nil, cluster.Wrap("looking for NetworkPolicy "+p.Name, err)
		}
	}
	return all, missing, nil
}

// Enforced reports whether the cluster enforces NetworkPolicies; see [enforcement.Probe].
func (d *Doctor) Enforced(ctx context.Context) (bool, error) {
	return enforcement.Probe{Client: d.client, Spec: d.spec}.Enforced(ctx)
}
