package kubernetes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/codehub/gateway/coordinator/backend"
)

func TestTheFullestQuotaCounts(t *testing.T) {
	quota := func(name, hard, used string) corev1.ResourceQuota {
		n := corev1.ResourceName(name)
		return corev1.ResourceQuota{Status: corev1.ResourceQuotaStatus{
			Hard: corev1.ResourceList{n: resource.MustParse(hard)}, Used: corev1.ResourceList{n: resource.MustParse(used)},
		}}
	}
	all, fast, slow := "requests.storage", "fast.storageclass.storage.k8s.io/requests.storage", "slow.storageclass.storage.k8s.io/requests.storage"
	const gi = 1 << 30
	for name, test := range map[string]struct {
		quotas []corev1.ResourceQuota
		want   backend.Disk
		known  bool
	}{
		"no quota":              {},
		"one of processors":     {[]corev1.ResourceQuota{quota("requests.cpu", "4", "1")}, backend.Disk{}, false},
		"one of storage":        {[]corev1.ResourceQuota{quota(all, "10Gi", "4Gi")}, backend.Disk{Total: 10 * gi, Free: 6 * gi}, true},
		"the class's is fuller": {[]corev1.ResourceQuota{quota(all, "10Gi", "4Gi"), quota(fast, "4Gi", "3Gi")}, backend.Disk{Total: 4 * gi, Free: gi}, true},
		"another class's":       {[]corev1.ResourceQuota{quota(slow, "4Gi", "3Gi")}, backend.Disk{}, false},
		"more than it allows":   {[]corev1.ResourceQuota{quota(all, "2Gi", "4Gi")}, backend.Disk{Total: 2 * gi}, true},
		"nothing allowed":       {[]corev1.ResourceQuota{quota(all, "0", "0")}, backend.Disk{}, false},
		"not counted yet":       {[]corev1.ResourceQuota{{Status: corev1.ResourceQuotaStatus{Hard: corev1.ResourceList{"requests.storage": resource.MustParse("1Gi")}}}}, backend.Disk{}, false},
	} {
		if got, known := fullest(test.quotas, "fast"); got != test.want || known != test.known {
			t.Errorf("%s: %+v, %t", name, got, known)
		}
	}
}
