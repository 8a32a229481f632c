// Package inspect looks at what an installation has on its container backend, and disturbs it, past
// the product. It is for tests, which are the same on Docker and on Kubernetes.
//
// It owns what a test needs to know of either, and nothing of how the product sees them. It
// must not be imported by anything but tests.
package inspect

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// The kinds of containers.
const (
	Workspace = "workspace"
	Job       = "job"
)

// The states of a container. Docker has more of them, which it names itself.
const (
	Created = "created" // made, and not running yet
	Running = "running"
	Exited  = "exited"
	Frozen  = "paused" // on Docker
)

// Container is the container of a workspace or of a storage job: on Kubernetes the only
// one of a Pod.
type Container struct {
	// Workspace is the workspace's id, Kind one of the kinds, Job what a job does: archive
	// or restore.
	Workspace, Kind, Job string
	// Name is the container's or the Pod's name, and ID what another one of that name has
	// not.
	Name, ID string
	// State is one of the states, and Term the leader's term that made the container.
	State, Term string
	// Address is where the network reaches it; empty until that is known.
	Address string
}

// Action is what has happened to a container.
type Action string

// The actions.
const (
	ActionCreate Action = "create"
	ActionStart  Action = "start"
	ActionDie    Action = "die"
	ActionRemove Action = "remove"
	ActionFreeze Action = "freeze" // on Docker
	ActionThaw   Action = "thaw"   // on Docker
)

// Event says what has happened to a container.
type Event struct {
	Action Action
	Container
}

// Mark is a moment in the life of a backend; see [Engine.Since].
type Mark struct {
	at   string
	seen map[string]string
}

// Engine is a container backend with one installation's things on it. Workspaces are named
// by their ids. Its methods are safe for concurrent use.
type Engine interface {
	// Containers lists the containers of a workspace and of its jobs, or of all for "".
	Containers(ctx context.Context, workspace string) ([]Container, error)
	// Volume returns the operation that made the workspace's home volume, and whether there
	// is one.
	Volume(ctx context.Context, workspace string) (op string, exists bool, err error)
	// MakeVolume makes a home volume for the workspace in the name of an operation, and
	// RemoveVolume removes it.
	MakeVolume(ctx context.Context, workspace, op string) error
	RemoveVolume(ctx context.Context, workspace string) error
	// Kill ends what runs in a container, and leaves the container.
	Kill(ctx context.Context, c Container) error
	// RemoveJob removes a storage job with what it has printed, as `docker rm -f` does.
	RemoveJob(ctx context.Context, c Container) error
	// Exec runs a shell command in the workspace's container with that input, and returns
	// what it prints. A command that fails is an error.
	Exec(ctx context.Context, workspace string, stdin io.Reader, command string) ([]byte, error)
	// Follow calls do with what happens to containers from now on, one event after the other
	// in the order in which the backend knows them. It returns when it follows them; what
	// ended it is sent at its end, nil after ctx has.
	Follow(ctx context.Context, do func(Event)) (ended <-chan error, err error)
	// Mark is now, and Since returns what has happened to a workspace's containers since
	// then. The backend may forget what is long ago.
	Mark(ctx context.Context) (Mark, error)
	Since(ctx context.Context, m Mark, workspace string) ([]Event, error)
	// Remove removes everything that the installation has on the backend. It may have to be
	// repeated.
	Remove(ctx context.Context) error
	// Close releases connections.
	Close()
}

// Find returns the container of a workspace; the zero Container if there is none.
func Find(ctx context.Context, e Engine, workspace string) (Container, error) {
	all, err := e.Containers(ctx, workspace)
	if err != nil {
		return Container{}, err
	}
	for _, c := range all {
		if c.Kind == Workspace {
			return c, nil
		}
	}
	return Container{}, nil
}

// failed is the error of a command that has ended with that code.
func failed(code int, stderr *bytes.Buffer) error {
	return fmt.Errorf("exit code %d: %s", code, bytes.TrimSpace(stderr.Bytes()))
}
