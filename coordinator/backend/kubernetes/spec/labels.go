// Package spec describes the Kubernetes objects of an installation. These are the Pods and
// PersistentVolumeClaims of workspaces, the Jobs and Secrets of storage jobs, and the
// NetworkPolicies around them.
//
// It owns the settings that shape them, their names, labels and annotations. It is pure:
// it takes values and returns values, and must not talk to a cluster.
package spec

import (
	"maps"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Labels of everything that an installation makes. They are stored in the cluster, so they
// must not change while an installation has workspaces.
const (
	// LabelInstallation is whose object it is (SPEC 12.8).
	LabelInstallation = "codehub.dev/installation"
	// LabelWorkspace is the workspace's id.
	LabelWorkspace = "codehub.dev/workspace"
	// LabelOwner is the id of the user whose workspace it is: what whom costs. Nothing depends on
	// it, and objects of earlier releases do not have it.
	LabelOwner = "codehub.dev/owner"
	// LabelKind is what the object is for, one of the Kind constants.
	LabelKind = "codehub.dev/kind"
	// LabelOp is the operation that made a home volume or a job.
	LabelOp = "codehub.dev/op"
	// LabelJob is a job's workspace.JobKind.
	LabelJob = "codehub.dev/job"
)

// Annotations: what is no valid label, or selects nothing.
const (
	// AnnotationTerm is the term of the leader that made the object. Nothing depends on it.
	AnnotationTerm = "codehub.dev/term"
	// AnnotationPort is the port of a workspace's application, AnnotationBasePath the path
	// prefix that it keeps.
	AnnotationPort     = "codehub.dev/port"
	AnnotationBasePath = "codehub.dev/base-path"
	// AnnotationSpec is a hash of what a workspace's Pod was made from. A Pod with the same
	// hash is the same but for its term, its owner and what [MountFolders] adds.
	AnnotationSpec = "codehub.dev/spec"
	// AnnotationSettings is a hash of the settings that a Pod or Job was made from, see [Settings].
	AnnotationSettings = "codehub.dev/settings"
	// AnnotationNode is, on a home, the node on which it was last used by a workspace.
	AnnotationNode = "codehub.dev/node"
	// AnnotationBusy is the command that exits with 0 in the workspace while it is busy.
	AnnotationBusy = "codehub.dev/busy-command"
	// AnnotationUnseen is on a workspace's Pod until it is known what its image mounts inside the home
	// (SPEC 7). Its value is the image, as the settings name it. Pods of earlier releases do not have it.
	AnnotationUnseen = "codehub.dev/unseen-image"
	// AnnotationFolders is, on a home, at which of its folders an image declares volumes: [Folders], as JSON.
	AnnotationFolders = "codehub.dev/folders"
)

// The values of [LabelKind].
const (
	KindWorkspace = "workspace" // a Pod
	KindJob       = "job"       // a Job, its Pod and its Secret
	KindHome      = "home"      // a PersistentVolumeClaim
)

// Manager is the field manager of everything that is applied.
const Manager = "codehub"

// Gate is the scheduling gate with which a workspace's Pod is made. It is removed when
// nothing else can use the volume any more; until then the Pod does not run.
const Gate = "codehub.dev/volume"

// Finalizer is on every Pod that may use a home, from its creation on. A Pod may be deleted by
// force, or because its Node object was removed. Without the finalizer it would be gone from the
// cluster while its containers may still run. Only this program removes it, when the Pod's status
// says that they do not; and an administrator who knows that the machine is off.
const Finalizer = "codehub.dev/in-use"

// Home is where a workspace finds its home, and Data where a storage job finds it.
const (
	Home = workspace.Home
	Data = "/data"
)

// Folder is the folder of a volume that is the home. Its parent stays the cluster's. The kubelet
// gives a volume to the Pod's group when its root folder has lost the group's rights. It would then
// change the modes of all files. The home's own folder may have any.
const Folder = "home"

// Labels returns the labels of the workspace's object of that kind.
func Labels(installation string, id workspace.ID, kind string) map[string]string {
	return map[string]string{LabelInstallation: installation, LabelWorkspace: string(id), LabelKind: kind}
}

// owned adds the owner's id to labels, if it is known.
func owned(labels map[string]string, owner string) map[string]string {
	if owner != "" {
		labels[LabelOwner] = owner
	}
	return labels
}

// Owns reports whether have are the labels of the workspace's object of that kind. Only
// such an object may be used, changed or removed; its name alone says nothing (SPEC 12.8).
func Owns(have map[string]string, installation string, id workspace.ID, kind string) bool {
	for k, v := range Labels(installation, id, kind) {
		if have[k] != v {
			return false
		}
	}
	return true
}

// With returns labels with more of them.
func With(labels, more map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+len(more))
	maps.Copy(out, labels)
	maps.Copy(out, more)
	return out
}
