package status

import (
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Refused returns why the cluster refused to create an object, from the request's error. It returns nil for an unknown
// reason. If the cluster refuses a Job's Pod, only events show the reason. However, a request to create the same Pod
// with dryRun=All fails for the same reason.
func Refused(err error) *workspace.Pending {
	if !apierrors.IsForbidden(err) {
		return nil
	}
	message := text(err.Error())
	if m := usedUp.FindStringSubmatch(message); m != nil {
		return &workspace.Pending{Reason: workspace.WaitQuota, Message: "the quota " + m[1] +
			" of the namespace is used up (it needs " + m[2] + ", " + m[3] + " is used, the limit is " + m[4] +
			"). It continues by itself when something ends there; an administrator can raise the quota"}
	}
	for _, r := range refusals {
		if strings.Contains(message, r.says) {
			w := &workspace.Pending{Reason: workspace.WaitQuota, Message: r.plain + ": " + message}
			if !r.waits {
				w.Reason, w.Failure = workspace.WaitContainer, workspace.ReasonActionFailed
			}
			return w
		}
	}
	return nil
}

// someCPU is the CPU limit for a Pod that must have one if the cluster accepts any value.
var someCPU = resource.MustParse("1")

// LimitOfCPU returns a CPU limit with which the cluster may accept a storage job's Pod that it has refused with err.
// The limit is used only if the settings have none. has is the limit of the refused Pod, or zero if it had none.
// LimitOfCPU returns zero if another limit does not help.
func LimitOfCPU(err error, has resource.Quantity) (limit resource.Quantity) {
	if !apierrors.IsForbidden(err) {
		return limit
	}
	message := text(err.Error())
	for _, m := range [][]string{largestCPU.FindStringSubmatch(message), quotaOfCPU.FindStringSubmatch(message)} {
		if m == nil {
			continue
		}
		if q, err := resource.ParseQuantity(m[1]); err == nil && q.Sign() > 0 && (has.IsZero() || q.Cmp(has) < 0) {
			return q
		}
	}
	if has.IsZero() && needsCPU.MatchString(message) {
		return someCPU
	}
	return limit
}
