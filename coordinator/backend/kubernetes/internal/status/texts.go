package status

import (
	"regexp"
	"strings"
)

// This file has every text of a cluster that this package recognizes. It needs the texts because the cluster's codes,
// reasons and conditions do not carry the same information.

// refusals are the problems in the settings or the namespace that make the cluster refuse an object. Those with waits
// set are limits on resources: the workspace waits until an administrator changes the limit or the settings. The others
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

// wrongSize means that a LimitRange refuses the Pod.
const wrongSize = "a LimitRange of the namespace does not allow the resources of the settings. It continues by itself " +
	"when one of them is changed"

var (
	// usedUp: a quota has no room for the object.
	usedUp = regexp.MustCompile(`exceeded quota: (\S+), requested: (\S+), used: (\S+), limited: (\S+)`)
	// needsCPU, largestCPU, quotaOfCPU: a Pod must have a CPU limit, or a lower one.
	needsCPU   = regexp.MustCompile(`must specify [^:]*\blimits\.cpu\b`)
	largestCPU = regexp.MustCompile(`maximum cpu usage per \w+ is (\w+)(?:,|\. No limit)`)
	quotaOfCPU = regexp.MustCompile(`exceeded quota: .*limited: .*\blimits\.cpu=(\w+)`)
)

// nodesMessage, perNode, awayTaint and taint are parts of the scheduler's message about nodes.
var (
	nodesMessage = regexp.MustCompile(`^0/(\d+) nodes are available: (.*)$`)
	perNode      = regexp.MustCompile(`^(\d+) (.+)$`)
	awayTaint    = regexp.MustCompile(`\{?node\.kubernetes\.io/(unreachable|not-ready)\b`)
	taint        = regexp.MustCompile(`taint \{([^}]*)\}`)
)

// nodeReasons are the scheduler's reasons against a node, in plain words.
var nodeReasons = map[string]string{
	"Too many pods":                                            "with as many Pods as they may run",
	"node(s) were unschedulable":                               "cordoned",
	"node(s) didn't match Pod's node affinity/selector":        "that the node selector of the settings leaves out",
	"node(s) exceed max volume count":                          "with as many volumes as they can attach",
	"node(s) did not have enough free storage":                 "without room for the volume",
	"node(s) didn't find available persistent volumes to bind": "without a volume that fits the claim",
}

// elsewhere are the scheduler's reasons to reject a node that cannot reach the home volume.
var elsewhere = map[string]bool{
	"node(s) didn't match PersistentVolume's node affinity": true,
	"node(s) had volume node affinity conflict":             true, // before Kubernetes 1.33
	"node(s) had no available volume zone":                  true,
}

// volumeProblems are the problems that the scheduler can have with the claim itself, each with its remedy.
var volumeProblems = []struct{ says, plain string }{
	{"bound to non-existent pv", goneVolume},
	{"bound to non-existent persistentvolume", goneVolume},
	{"is being deleted", "the claim of its home is being deleted, and not by this system"},
	{`" not found`, "the claim of its home does not exist"},
	{"persistentvolumeclaim", "the claim of its home cannot be used"},
	{"unbound immediate PersistentVolumeClaims", "its home has no volume yet: the storage class creates none. Check " +
		"that the storage class of the settings exists and that its provisioner runs (kubectl describe pvc)"},
	{"ReadWriteOncePod", "another Pod uses its home volume; it continues when that Pod has ended"},
}

const goneVolume = "the PersistentVolume of its home is gone, and with it the files, unless an administrator brings it back"

// misconfigured explains a problem that is certainly an error in the settings or the image. It returns "" for a problem
// that may pass, such as a Secret that the node has not read yet.
func misconfigured(message string) string {
	switch {
	case says(message, "runAsNonRoot and image will run as root", "breaks non-root policy"):
		return "the image runs as root, which workspaces must not: set another user in the settings or in the image"
	case says(message, "image has non-numeric user"):
		return "the image has a user name and no number, so that it may be root: set the " +
			"user in the settings, or a number in the image"
	case says(message, "not found", "couldn't find key"):
		return "the Pod template of the settings needs an object that the namespace lacks: " + message
	}
	return ""
}

// advice returns what to do about an eviction.
func advice(message string) string {
	switch {
	case says(message, "EmptyDir volume", "local ephemeral storage"):
		return "; raise the limit of temporary files in the settings"
	case says(message, "was low on resource", "had condition"):
		return "; free some on the node, or add nodes"
	}
	return ""
}

// beyondItsLimit reports whether a Pod was evicted because it exceeded a limit of its own.
func beyondItsLimit(eviction string) bool { return says(eviction, "exceed") }

// aboutFolder reports whether a node cannot mount a folder of a volume.
func aboutFolder(message string) bool { return says(message, "subPath") }

// LacksCommand reports whether a runtime could not start a command because the image does not have it.
func LacksCommand(message string) bool {
	return says(strings.ToLower(message), "executable file not found", "no such file or directory", "permission denied")
}

// pullError returns the part of a message after the kubelet's prefix.
func pullError(message string) string {
	if _, after, found := strings.Cut(message, "ErrImagePull: "); found {
		return after
	}
	return message
}

// says reports whether the message has one of the texts.
func says(message string, texts ...string) bool {
	for _, t := range texts {
		if strings.Contains(message, t) {
			return true
		}
	}
	return false
}
