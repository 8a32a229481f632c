package backend

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/clock"
	"github.com/codehub/gateway/coordinator/workspace"
)

// ObjectKind is the purpose of an object of this installation.
type ObjectKind string

// The kinds of [Object].
const (
	ObjectContainer ObjectKind = "container" // a workspace's container
	ObjectVolume    ObjectKind = "volume"    // a home volume
	ObjectJob       ObjectKind = "job"       // the container of a storage job
	// ObjectScratch is a volume without user data: either the scratch volume of a deleted job, or an empty volume that
	// the engine created instead of a missing home.
	ObjectScratch ObjectKind = "scratch"
	// ObjectSandbox is a container that keeps a sleeping workspace's network.
	ObjectSandbox ObjectKind = "sandbox"
	// ObjectNetwork is a network that this installation created and no longer uses. It belongs to no workspace.
	ObjectNetwork ObjectKind = "network"
)

// Object is one object with this installation's labels. [Objects] lists them, so that those that no longer belong to a
// workspace can be found.
type Object struct {
	Kind ObjectKind
	// Name is the backend's name for the object, for display.
	Name string
	// Workspace is the workspace in its label; empty for a network.
	Workspace workspace.ID
	// OpID is the operation that created it, for volumes and jobs; empty if unknown.
	OpID string
	// Created is by this process's clock, see [ByOwnClock]; zero if unknown.
	Created time.Time
	// UID is the backend's own id of this incarnation. Remove of [Objects] uses it.
	UID string
}

// ByOwnClock converts the times of objects from the backend's clock to this process's clock. now returns the time of
// the backend's clock.
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
