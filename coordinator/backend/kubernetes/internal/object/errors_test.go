package object

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/codehub/gateway/coordinator/backend"
)

// TestChanged: a request is retried only if it failed because another process had changed the object.
func TestChanged(t *testing.T) {
	pods := schema.GroupResource{Resource: "pods"}
	proxy := apierrors.NewGenericServerResponse(404, "get", pods, "x", "<html>", 0, true)
	for _, c := range []struct {
		err  error
		want bool
	}{
		{apierrors.NewNotFound(pods, "x"), true},
		{apierrors.NewConflict(pods, "x", errors.New("its version is another")), true},
		{apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", field.ErrorList{
			field.Invalid(field.NewPath("spec", "selector"), "a", "not auto-generated"), field.Invalid(field.NewPath("metadata", "uid"), "a", "field is immutable")}), true},
		{apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "x", field.ErrorList{field.Invalid(field.NewPath("spec"), "a", "no")}), false},
		{apierrors.NewForbidden(pods, "x", errors.New("no")), false},
		{proxy, false},
	} {
		if got := errors.Is(Changed("doing it", c.err), backend.ErrChanged); got != c.want {
			t.Errorf("%v: %t", c.err, got)
		}
	}
	if Missing(proxy) {
		t.Error("a proxy's 404 says that the object does not exist")
	}
}
