package backend

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/workspace"
)

// ObjectKind is what an object of this installation is for.
type ObjectKind string

// The kinds of [Object].
const (
	ObjectContainer ObjectKind = "container" // a workspace's container
	ObjectVolume    ObjectKind = "volume"    // a home volume
	ObjectJob       ObjectKind = "job"       // the container of a storage job
	// ObjectScratch is a volume that holds nothing of a user's. It is that of a job which is gone,
	// or an empty one that the engine made where a home was missing.
	ObjectScratch ObjectKind = "scratch"
	// ObjectSandbox is a container that keeps a workspace's network while the workspace sleeps.
	ObjectSandbox ObjectKind = "sandbox"
	// ObjectNetwork is a network that this installation made and does not use any more.
	// It belongs to no workspace.
	ObjectNetwork ObjectKind = "network"
)

// Object is one thing that carries this installation's labels. [Objects] lists
// them, so that what belongs to no workspace any more can be found.
type Object struct {
	Kind ObjectKind
	// Name is the backend's name of it, for people.
	Name string
	// Workspace is the workspace that its label names; empty for a network.
	Workspace workspace.ID
	// OpID is the operation that made it, for volumes and jobs; empty when unknown.
	OpID string
	// Created is by this process's clock, see [ByOwnClock]; zero when unknown.
	Created time.Time
	// UID is the backend's own id of this incarnation. Remove of [Objects] goes by it.
	UID string
}

// ByOwnClock moves the times of objects, which are the backend's, to those of this process's clock.
// They move by as much as the time that now returns differs from it.
func ByOwnClock(ctx context.Context, objects []Object, now func(context.Context) (time.Time, error)) ([]Object, error) {
	before := time.Now()
	theirs, err := now(ctx)
	if err != nil {
		return nil, err
	}
	skew := clock.Skew(before, theirs, time.Now())
	for i := range objects {
		if o := &objects[i]; !o.Created.IsZero() {
			o.Created = o.Created.Add(-skew)
		}
	}
	return objects, nil
}
