// Package kubernetes runs workspaces and storage jobs on a Kubernetes cluster. It implements [backend.Core] (SPEC 7): a
// workspace is the Pod ws-{id} on the PersistentVolumeClaim ws-{id}-home, and a storage job is a Job.
//
// It owns the objects with its installation's label in one namespace. It must not decide what runs, and must not touch
// anything else in the cluster.
package kubernetes

import (
	"errors"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/setting"
)

// Options are the settings of a Kubernetes backend.
type Options struct {
	cluster.Options
	// Spec shapes the objects.
	Spec spec.Options
}

// Validate reports everything that is wrong with the options at once. It performs no I/O: a missing cluster, class or
// image is noticed only when it is used.
func (o Options) Validate() error {
	var errs []error
	if o.Namespace != "" && len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		errs = append(errs, setting.Errorf("kubernetes namespace", "%q must be a name of lower-case letters, digits and '-'",
			o.Namespace))
	}
	return errors.Join(append(errs, o.Spec.Validate())...)
}
