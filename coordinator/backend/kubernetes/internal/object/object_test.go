package object

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// behind is a cache that lags behind its cluster: it shows these uids of a Pod, one after the other. Its cluster has
// the Pod with the uid stored.
type behind struct {
	shows  []types.UID
	stored types.UID
}

func pod(uid types.UID) *corev1.Pod { return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}} }

func (c *behind) Await(_ context.Context, _ string, done func(*corev1.Pod, bool) bool) error {
	for !done(pod(c.shows[0]), true) {
		c.shows = c.shows[1:]
	}
	return nil
}

func (c *behind) Get(context.Context, string, metav1.GetOptions) (*corev1.Pod, error) {
	return pod(c.stored), nil
}

func (c *behind) Patch(context.Context, string, types.PatchType, []byte, metav1.PatchOptions, ...string) (*corev1.Pod, error) {
	panic("nothing is changed")
}

func (c *behind) Delete(context.Context, string, metav1.DeleteOptions) error {
	panic("nothing is deleted")
}

// TestShown: if the cache still shows an object from before the call, that does not count as the actuator's result. An
// object that has replaced the result since does.
func TestShown(t *testing.T) {
	for name, c := range map[string]behind{
		"one from before": {shows: []types.UID{"former", "former", "made"}, stored: "made"},
		"one after it":    {shows: []types.UID{"later"}, stored: "later"},
	} {
		k := &c
		if err := Shown(t.Context(), k, k, "pod", "ws", "made", func(*corev1.Pod) bool { return true }); err != nil || k.shows[0] != c.stored {
			t.Errorf("%s: %v, and the cache shows %s", name, err, k.shows[0])
		}
	}
}
