package object

import (
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
)

// ErrStays means that a deleted object did not disappear within [GoneLimit].
var ErrStays = errors.New("it was deleted and is still there")

// Changed returns [backend.ErrChanged] if another process has changed, replaced or removed the object of a request, and
// otherwise the request's error.
func Changed(doing string, err error) error {
	if Missing(err) || apierrors.IsConflict(err) || otherUID(err) {
		return fmt.Errorf("%w: %w", backend.ErrChanged, err)
	}
	return cluster.Wrap(doing, err)
}

// Missing reports whether the cluster says that an object does not exist. A proxy in front of the cluster may answer
// any request with 404.
func Missing(err error) bool {
	return apierrors.IsNotFound(err) && !apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// otherUID reports whether a patch was refused because the object has another uid. To the cluster, such a patch tries
// to change the uid.
func otherUID(err error) bool {
	var status apierrors.APIStatus
	if !apierrors.IsInvalid(err) || !errors.As(err, &status) || status.Status().Details == nil {
		return false
	}
	return slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool {
		return c.Field == "metadata.uid"
	})
}
