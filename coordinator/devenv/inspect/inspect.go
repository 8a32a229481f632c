// Package inspect looks at the containers and volumes that an installation has on its container backend, and disturbs
// them. It does so without the product. It lets the same tests run on Docker and on Kubernetes.
//
// It knows what a test needs to know about either backend, and must not know how the product sees the backends. Only
// tests may import it.
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

// The states of a container. Docker has other states, too, which keep Docker's names.
const (
	Created = "created" // made, and not running yet
	Running = "running"
	Exited  = "exited"
	Frozen  = "paused" // on Docker
)

// Container is the container of a workspace or of a storage job; on Kubernetes, the only container of a Pod.
type Container struct {
	// Workspace is the workspace's id, Kind one of the kinds, and Job the job's task: archive or restore.
	Workspace, Kind, Job string
	// Name is the name of the container or the Pod. Two of the same name have different IDs.
	Name, ID string
	// State is one of the states, and Term is the term of the leader that made the container.
	State, Term string
	// Address is the container's address on the network; empty until that is known.
	Address string
}

// Action is a change of a container.
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

// Event is an action on a container.
type Event struct {
	Action Action
	Container
}

// Mark is a moment in the life of a backend; see [Engine.Since].
type Mark struct {
	at   string
	seen map[string]string
}

// Engine is what one installation has on a container backend. Workspaces are named by their ids. Its methods are safe
// for concurrent use.
type Engine interface {
	// Containers lists the containers of a workspace and its jobs, or of all workspaces for "".
	Containers(ctx context.Context, workspace string) ([]Container, error)
	// Volume returns the operation that made the workspace's home volume, and whether that volume exists.
	Volume(ctx context.Context, workspace string) (op string, exists bool, err error)
	// MakeVolume makes a home volume for the workspace, labelled with an operation. RemoveVolume removes it.
	MakeVolume(ctx context.Context, workspace, op string) error
	RemoveVolume(ctx context.Context, workspace string) error
	// Kill ends the processes in a container, and leaves the container.
	Kill(ctx context.Context, c Container) error
	// RemoveJob removes a storage job with its output, as `docker rm -f` does.
	RemoveJob(ctx context.Context, c Container) error
	// Exec runs a shell command in the workspace's container with that input, and returns its output. A command that
	// fails is an error.
	Exec(ctx context.Context, workspace string, stdin io.Reader, command string) ([]byte, error)
	// Follow calls do for each event of containers from now on, in the backend's order. It returns once it has begun to
	// follow them. When it stops following, it sends the reason to ended, or nil if ctx has ended.
	Follow(ctx context.Context, do func(Event)) (ended <-chan error, err error)
	// Mark is now. Since returns the events of a workspace's containers since a mark. The backend may forget old
	// ones.
	Mark(ctx context.Context) (Mark, error)
	Since(ctx context.Context, m Mark, workspace string) ([]Event, error)
	// Remove removes everything that the installation has on the backend. It may be necessary to call it again.
	Remove(ctx context.Context) error
	// Close releases connections.
	Close()
}

// Find returns the container of a workspace, or the zero Container if there is none.
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

// failed returns the error of a command that has ended with that code.
func failed(code int, stderr *bytes.Buffer) error {
	return fmt.Errorf("exit code %d: %s", code, bytes.TrimSpace(stderr.Bytes()))
}
