// Package spec describes the objects of an installation on a Docker engine: the containers of workspaces and storage
// jobs, their addresses, and the labels of everything.
//
// It owns the settings that shape these objects, and the advice for the case that an engine refuses one of the
// settings. It is pure: it takes values and returns values, and must not talk to an engine.
package spec

import (
	"github.com/docker/docker/api/types/filters"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Labels of an installation's objects. They are stored on the engine, so they must not change while an installation has
// workspaces.
const (
	// LabelInstallation is [Options.Installation], the owner of the object (SPEC 12.8).
	LabelInstallation = "codehub.installation"
	// LabelWorkspace is the workspace's id.
	LabelWorkspace = "codehub.workspace"
	// LabelOwner is the id of the workspace's user, for accounting. Nothing depends on it, and objects of earlier
	// releases lack it.
	LabelOwner = "codehub.owner"
	// LabelKind is the purpose of the object, one of the Kind constants.
	LabelKind = "codehub.kind"
	// LabelOp is the operation that created a home volume or a job. Volumes of earlier releases lack it.
	LabelOp = "codehub.op"
	// LabelJob is a job's workspace.JobKind.
	LabelJob = "codehub.job"
	// LabelTerm is the term of the leader that created a container. Nothing depends on it.
	LabelTerm = "codehub.term"
	// LabelPort is the port of a workspace's application, and LabelBasePath the path prefix that it serves. Containers
	// of earlier releases lack both.
	LabelPort     = "codehub.port"
	LabelBasePath = "codehub.base-path"
	// LabelSpec is a hash of the description of a workspace's container. Containers with the same hash differ only in
	// their term.
	LabelSpec = "codehub.spec"
	// LabelSource is, on an image without volumes, the id of the original.
	LabelSource = "codehub.source"
)

// The values of [LabelKind].
const (
	// KindWorkspace and KindJob are containers, KindHome is a volume.
	KindWorkspace = "workspace"
	KindJob       = "job"
	KindHome      = "home"
	// KindScratch is a job's volume at /tmp. It is removed together with the job.
	KindScratch = "scratch"
	// KindAutoCreated is a volume that the engine created because a home was missing.
	KindAutoCreated = "accident"
	// KindEgress are the short-lived containers that apply the firewall rules, and KindUsage those that measure homes
	// and their disk.
	KindEgress = "egress"
	KindUsage  = "usage"
	// KindSandbox is the container that keeps a workspace's network while it sleeps.
	KindSandbox = "sandbox"
	// KindImage is a copy of an image without the volumes.
	KindImage = "image"
	// KindDecision is the volume that records that this engine supports firewall rules. It is empty.
	KindDecision = "egress-decision"
)

// Labels returns the labels of the workspace's object of that kind.
func (o Options) Labels(id workspace.ID, kind string) map[string]string {
	return map[string]string{LabelInstallation: o.Installation, LabelWorkspace: string(id), LabelKind: kind}
}

// Owned adds the owner's id to labels, if it is known.
func Owned(labels map[string]string, owner string) map[string]string {
	if owner != "" {
		labels[LabelOwner] = owner
	}
	return labels
}

// Owns reports whether the labels in have are those of the workspace's object of that kind. Only such an object may be
// used, changed or removed; its name alone proves nothing (SPEC 12.8).
func (o Options) Owns(have map[string]string, id workspace.ID, kind string) bool {
	for k, v := range o.Labels(id, kind) {
		if have[k] != v {
			return false
		}
	}
	return true
}

// HelperLabels returns the labels of a short-lived container of that kind, which belongs to no workspace.
func (o Options) HelperLabels(kind string) map[string]string {
	return map[string]string{LabelInstallation: o.Installation, LabelKind: kind}
}

// AllHelperLabels are the labels of each kind of helper.
func (o Options) AllHelperLabels() []map[string]string {
	return []map[string]string{o.HelperLabels(KindEgress), o.HelperLabels(KindUsage)}
}

// Filter selects objects of this installation by kind and, if there are only a few ids, by workspace or name. Without a
// kind it selects the objects of workspaces. For many ids, one listing of the whole kind is cheaper. A filter may
// select too many objects, so callers check the labels of each result.
func (o Options) Filter(kind string, ids []workspace.ID, name func(workspace.ID) string) filters.Args {
	const few = 16
	args := filters.NewArgs(
		filters.Arg("label", LabelInstallation+"="+o.Installation),
	)
	if kind != "" {
		args.Add("label", LabelKind+"="+kind)
	} else {
		args.Add("label", LabelWorkspace)
	}
	// Labels cannot be combined with "or", but names can. A label is exact; a name is a regular expression, so it must
	// be anchored.
	if len(ids) == 1 {
		args.Add("label", LabelWorkspace+"="+string(ids[0]))
	} else if len(ids) <= few && name != nil {
		for _, id := range ids {
			args.Add("name", name(id))
		}
	}
	return args
}

// Selector returns a function that reports whether an id is among ids. Without ids it accepts every id.
func Selector(ids []workspace.ID) func(workspace.ID) bool {
	if len(ids) == 0 {
		return func(workspace.ID) bool { return true }
	}
	set := make(map[workspace.ID]struct{}, len(ids))
	for _, id := range ids {
		set[id] = struct{}{}
	}
	return func(id workspace.ID) bool { _, ok := set[id]; return ok }
}
