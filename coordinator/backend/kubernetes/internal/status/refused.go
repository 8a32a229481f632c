package status

import (
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/codehub/gateway/coordinator/workspace"
)

// usedUp is how the cluster says that a quota has no room for an object.
var usedUp = regexp.MustCompile(`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`)

// refusals are what in the settings or the namespace keeps an object from ever being made.
var refusals = []struct{ says, plain string }{
	{"failed quota: ", "a quota of the namespace asks for requests or limits that the settings do not set"},
	{"insufficient quota", "no quota of the namespace covers it"},
	{"violates PodSecurity", "the namespace enforces another level of Pod Security than this system needs " +
		"(baseline): check its label pod-security.kubernetes.io/enforce, and the Pod template of the settings"},
	{" usage per ", "a LimitRange of the namespace does not allow the resources of the settings"},
	{"max limit to request ratio per ", "a LimitRange of the namespace does not allow the resources of the settings"},
	{"is being terminated", "the namespace is being deleted"},
}

// Refused returns why the cluster does not make an object, from the error of the request that was
// to make it. It is nil for a reason that is not known here. A Job whose Pods are refused has no
// trace of that but events: the same Pod, made with dryRun=All, is refused for the same reason.
func Refused(err error) *workspace.Pending {
	if !apierrors.IsForbidden(err) {
		return nil
	}
	message := text(err.Error())
	if m := usedUp.FindStringSubmatch(message); m != nil {
		return &workspace.Pending{Reason: workspace.WaitQuota, Message: "the quota " + m[1] +
			" of the namespace is used up (it needs " + m[2] + ", " + m[3] + " is used, the limit is " + m[4] +
			"). It goes on by itself when something ends there; an administrator can raise the quota"}
	}
	for _, r := range refusals {
		if strings.Contains(message, r.says) {
			return &workspace.Pending{
				Reason: workspace.WaitContainer, Failure: workspace.ReasonActionFailed, Message: r.plain +
					": " + message,
			}
		}
	}
	return nil
}
