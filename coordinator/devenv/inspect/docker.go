package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/events"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/stdcopy"

	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// Docker is an installation's part of a Docker engine.
type Docker struct {
	*client.Client
	installation string
	// remove removes everything of the installation.
	remove func(context.Context) error
}

// NewDocker returns the installation's part of the engine at host.
func NewDocker(host, installation string, remove func(context.Context) error) (*Docker, error) {
	api, err := server.EngineClient(host)
	if err != nil {
		return nil, err
	}
	return &Docker{api, installation, remove}, nil
}

// own selects the objects that belong to one workspace, or to any workspace of the installation.
func (d *Docker) own(workspace string, more ...filters.KeyValuePair) filters.Args {
	label := spec.LabelInstallation + "=" + d.installation
	if workspace != "" {
		label = spec.LabelWorkspace + "=" + workspace
	}
	return filters.NewArgs(append(more, filters.Arg("label", label))...)
}

// Containers implements [Engine]. It does not list sandboxes: a sandbox only holds the network that a workspace's
// container may join.
func (d *Docker) Containers(ctx context.Context, workspace string) ([]Container, error) {
	list, err := d.ContainerList(ctx, container.ListOptions{All: true, Filters: d.own(workspace)})
	if err != nil {
		return nil, err
	}
	addresses := map[string]string{} // by the ids of the containers that have them
	for _, c := range list {
		if c.NetworkSettings != nil {
			for _, n := range c.NetworkSettings.Networks {
				addresses[c.ID] = n.IPAddress
			}
		}
	}
	var all []Container
	for _, c := range list {
		if c.Labels[spec.LabelKind] == spec.KindSandbox {
			continue
		}
		one := described(c.Labels, c.ID)
		one.Name, one.State = strings.TrimPrefix(strings.Join(c.Names, " "), "/"), c.State
		one.Address = addresses[c.ID]
		if mode := container.NetworkMode(c.HostConfig.NetworkMode); mode.IsContainer() {
			one.Address = addresses[mode.ConnectedContainer()]
		}
		all = append(all, one)
	}
	return all, nil
}

// Sandbox returns the name of the workspace's running sandbox, or "", and whether the workspace's container has
// joined a sandbox. For "", it looks at all workspaces.
func (d *Docker) Sandbox(ctx context.Context, workspace string) (name string, joined bool, err error) {
	list, err := d.ContainerList(ctx, container.ListOptions{All: true, Filters: d.own(workspace)})
	if err != nil {
		return "", false, err
	}
	for _, c := range list {
		if c.Labels[spec.LabelKind] == spec.KindSandbox && c.State == container.StateRunning {
			name = strings.TrimPrefix(strings.Join(c.Names, " "), "/")
		}
		joined = joined || container.NetworkMode(c.HostConfig.NetworkMode).IsContainer()
	}
	return name, joined, nil
}

func described(labels map[string]string, id string) Container {
	return Container{
		Workspace: labels[spec.LabelWorkspace], Kind: labels[spec.LabelKind], Job: labels[spec.LabelJob],
		ID: id, Term: labels[spec.LabelTerm],
	}
}

// Volume implements [Engine].
func (d *Docker) Volume(ctx context.Context, workspace string) (op string, exists bool, err error) {
	v, err := d.VolumeInspect(ctx, homeOf(workspace))
	if errdefs.IsNotFound(err) {
		return "", false, nil
	}
	return v.Labels[spec.LabelOp], err == nil, err
}

// homeOf is the name of the workspace's home volume, on every backend.
func homeOf(workspace string) string { return "ws-" + workspace + "-home" }

// MakeVolume implements [Engine].
func (d *Docker) MakeVolume(ctx context.Context, workspace, op string) error {
	_, err := d.VolumeCreate(ctx, volume.CreateOptions{Name: homeOf(workspace), Labels: map[string]string{
		spec.LabelInstallation: d.installation, spec.LabelWorkspace: workspace,
		spec.LabelKind: spec.KindHome, spec.LabelOp: op,
	}})
	return err
}

// RemoveVolume implements [Engine].
func (d *Docker) RemoveVolume(ctx context.Context, workspace string) error {
	return d.VolumeRemove(ctx, homeOf(workspace), true)
}

// Kill implements [Engine].
func (d *Docker) Kill(ctx context.Context, c Container) error {
	err := d.ContainerKill(ctx, c.ID, "KILL")
	if err != nil && strings.Contains(err.Error(), "not running") {
		return nil // it has ended by itself at the same moment
	}
	return err
}

// RemoveJob implements [Engine].
func (d *Docker) RemoveJob(ctx context.Context, c Container) error {
	return d.ContainerRemove(ctx, c.ID, container.RemoveOptions{Force: true})
}

// Exec implements [Engine].
func (d *Docker) Exec(ctx context.Context, workspace string, stdin io.Reader, command string) ([]byte, error) {
	e, err := d.ContainerExecCreate(ctx, "ws-"+workspace, container.ExecOptions{
		Cmd: []string{"sh", "-c", command}, AttachStdin: stdin != nil, AttachStdout: true, AttachStderr: true,
	})
	if err != nil {
		return nil, err
	}
	conn, err := d.ContainerExecAttach(ctx, e.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if stdin != nil {
		go func() { _, _ = io.Copy(conn.Conn, stdin); _ = conn.CloseWrite() }()
	}
	var out, errs bytes.Buffer
	if _, err := stdcopy.StdCopy(&out, &errs, conn.Reader); err != nil {
		return nil, err
	}
	done, err := d.ContainerExecInspect(ctx, e.ID)
	if err == nil && done.Running {
		err = errors.New("it still runs")
	}
	if err == nil && done.ExitCode != 0 {
		err = failed(done.ExitCode, &errs)
	}
	return out.Bytes(), err
}

// actions are Docker's names for the events that Follow reports. Follow skips others, such as exec_start.
var actions = map[events.Action]Action{
	events.ActionCreate: ActionCreate, events.ActionStart: ActionStart, events.ActionDie: ActionDie,
	events.ActionDestroy: ActionRemove, events.ActionPause: ActionFreeze, events.ActionUnPause: ActionThaw,
}

func eventOf(m events.Message) (Event, bool) {
	e := Event{actions[m.Action], described(m.Actor.Attributes, m.Actor.ID)}
	e.Name = m.Actor.Attributes["name"]
	return e, e.Action != "" && e.Kind != spec.KindSandbox
}

var ofContainers = filters.Arg("type", string(events.ContainerEventType))

// Follow implements [Engine].
func (d *Docker) Follow(ctx context.Context, do func(Event)) (<-chan error, error) {
	messages, errs := d.Events(ctx, events.ListOptions{Filters: d.own("", ofContainers)})
	ended := make(chan error, 1)
	go func() {
		for {
			select {
			case m := <-messages:
				if e, ok := eventOf(m); ok {
					do(e)
				}
			case err := <-errs:
				if ctx.Err() != nil {
					err = nil
				}
				ended <- err
				return
			}
		}
	}()
	return ended, nil
}

// Mark implements [Engine].
func (d *Docker) Mark(context.Context) (Mark, error) { return Mark{at: unix(time.Now())}, nil }

func unix(at time.Time) string { return fmt.Sprintf("%d.%09d", at.Unix(), at.Nanosecond()) }

// Since implements [Engine].
func (d *Docker) Since(ctx context.Context, m Mark, workspace string) (all []Event, err error) {
	messages, errs := d.Events(ctx,
		events.ListOptions{Since: m.at, Until: unix(time.Now()), Filters: d.own(workspace, ofContainers)})
	for {
		select {
		case m := <-messages:
			if e, ok := eventOf(m); ok {
				all = append(all, e)
			}
		case err := <-errs:
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return all, err
		}
	}
}

// Remove implements [Engine].
func (d *Docker) Remove(ctx context.Context) error { return d.remove(ctx) }

// Close implements [Engine].
func (d *Docker) Close() { _ = d.Client.Close() }
