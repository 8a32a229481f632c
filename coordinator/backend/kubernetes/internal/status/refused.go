package status

import (
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/codehub/gateway/coordinator/workspace"
)

// usedUp is how the cluster says that a quota has no room for an object.
var usedUp = regexp.MustCompile(`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`)

// refusals are what in the settings or the namespace keeps an object from being made. Those that wait
// are limits on resources, as a quota is: an administrator changes them, or the settings. The others
// are failures.
var refusals = []struct {
	says, plain string
	waits       bool
}{
	{"failed quota: ", "a quota of the namespace asks for requests or limits that the settings do not set: set them, " +
		"or give the namespace a LimitRange with defaults", true},
	{"insufficient quota", "no quota of the namespace covers it", true},
	{"violates PodSecurity", "the namespace enforces another level of Pod Security than this system needs " +
		"(baseline): check its label pod-security.kubernetes.io/enforce, and the Pod template of the settings", false},
	{" usage per ", wrongSize, true},
	{"max limit to request ratio per ", wrongSize, true},
	{"is being terminated", "the namespace is being deleted", false},
}

// wrongSize says that a LimitRange is in the way.
const wrongSize = "a LimitRange of the namespace does not allow the resources of the settings. It goes on by itself " +
	"when one of them is changed"

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
			w := &workspace.Pending{Reason: workspace.WaitQuota, Message: r.plain + ": " + message}
			if !r.waits {
				w.Reason, w.Failure = workspace.WaitContainer, workspace.ReasonActionFailed
			}
			return w
		}
	}
	return nil
}

// How the cluster says that a Pod must have a limit of processors, or a smaller one.
var (
	needsCPU   = regexp.MustCompile(`must specify [^:]*\blimits\.cpu\b`)
	largestCPU = regexp.MustCompile(`maximum cpu usage per \w+ is (\w+)(?:,|\. No limit)`)
	quotaOfCPU = regexp.MustCompile(`exceeded quota: .*limited: .*\blimits\.cpu=(\w+)`)
)

// someCPU is the limit of processors of a Pod that must have one, whichever.
var someCPU = resource.MustParse("1")

// LimitOfCPU returns the limit of processors with which the cluster might make the Pod of a job that it
// has refused, from the error of the request that was to make it, where the settings set none. Has is
// the limit that the Pod had, zero for none. It is zero if another limit does not help.
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
