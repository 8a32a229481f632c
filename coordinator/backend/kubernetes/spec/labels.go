// Package spec describes the Kubernetes objects of an installation: the Pods and PersistentVolumeClaims of workspaces,
// the Jobs and Secrets of storage jobs, and the NetworkPolicies around them.
//
// It owns the settings that shape them, their names, labels and annotations. It is pure: it takes values and returns
// values, and must not talk to a cluster.
package spec

import (
	"maps"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Labels of an installation's objects. They are stored in the cluster, so they must not change while an installation
// has workspaces.
const (
	// LabelInstallation is the owner of the object (SPEC 12.8).
	LabelInstallation = "codehub.dev/installation"
	// LabelWorkspace is the workspace's id.
	LabelWorkspace = "codehub.dev/workspace"
	// LabelOwner is the id of the workspace's user, for accounting. Nothing depends on it, and objects of earlier
	// releases lack it.
	LabelOwner = "codehub.dev/owner"
	// LabelKind is the purpose of the object, one of the Kind constants.
	LabelKind = "codehub.dev/kind"
	// LabelOp is the operation that created a home volume or a job.
	LabelOp = "codehub.dev/op"
	// LabelJob is a job's workspace.JobKind.
	LabelJob = "codehub.dev/job"
)

// Annotations hold values that are not valid in a label, or by which nothing is selected.
const (
	// AnnotationTerm is the term of the leader that created the object. Nothing depends on it.
	AnnotationTerm = "codehub.dev/term"
	// AnnotationPort is the port of a workspace's application, and AnnotationBasePath the path prefix that it serves.
	AnnotationPort     = "codehub.dev/port"
	AnnotationBasePath = "codehub.dev/base-path"
	// AnnotationSpec is a hash of the description of a workspace's Pod. Pods with the same hash differ only in their
	// term, their owner and what [MountFolders] adds.
	AnnotationSpec = "codehub.dev/spec"
	// AnnotationSettings is a hash of the settings of a Pod or Job, see [Settings].
	AnnotationSettings = "codehub.dev/settings"
	// AnnotationNode is on a home. It names the node on which the workspace last used the home.
	AnnotationNode = "codehub.dev/node"
	// AnnotationBusy is the command that exits with 0 in the workspace while the workspace is busy.
	AnnotationBusy = "codehub.dev/busy-command"
	// AnnotationUnseen is on a workspace's Pod until its image's mounts inside the home are known (SPEC 7). Its value
	// is the image, as the settings name it. Pods of earlier releases lack it.
	AnnotationUnseen = "codehub.dev/unseen-image"
	// AnnotationFolders is on a home. It lists the folders at which an image declares volumes: [Folders], as JSON.
	AnnotationFolders = "codehub.dev/folders"
)

// The values of [LabelKind].
const (
	KindWorkspace = "workspace" // a Pod
	KindJob       = "job"       // a Job, its Pod and its Secret
	KindHome      = "home"      // a PersistentVolumeClaim
)

// Manager is the field manager of all applied objects.
const Manager = "codehub"

// Gate is the scheduling gate of a new workspace's Pod. It is removed once nothing else can use the volume; until then
// the Pod does not run.
const Gate = "codehub.dev/volume"

// Finalizer is on every Pod that may use a home, from its creation on. A Pod may be deleted by force, or because its
// Node object was removed. Without the finalizer it would disappear from the cluster while its containers may still
// run. This program removes the finalizer only when the Pod's status proves that nothing runs. Otherwise only an
// administrator who knows that the machine is off may remove it.
const Finalizer = "codehub.dev/in-use"

// Home is the mount point of the home in a workspace, and Data that in a storage job.
const (
	Home = workspace.Home
	Data = "/data"
)

// Folder is the folder of a volume that is the home. The volume's root folder is left to the cluster. If the root
// folder lost the group's rights, the kubelet would give the whole volume to the Pod's group again, and would change
// the modes of all files. The home's own folder may have any rights.
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

// Owns reports whether an object with the labels have is the workspace's object of that kind. Only such an object may
// be used, changed or removed; its name alone proves nothing (SPEC 12.8).
func Owns(have map[string]string, installation string, id workspace.ID, kind string) bool {
	for k, v := range Labels(installation, id, kind) {
		if have[k] != v {
			return false
		}
	}
	return true
}

// With returns labels together with more.
func With(labels, more map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+len(more))
	maps.Copy(out, labels)
	maps.Copy(out, more)
	return out
}
