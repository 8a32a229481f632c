package home

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/volume"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/image"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

const (
	// usageStart is how long a helper may take in addition to the time for counting.
	usageStart = 30 * time.Second
	// These are the helper's shares of the processor and the disk. Other containers have about 1000 each, so the helper
	// yields to workspaces and jobs.
	usageShares = 64
	usageWeight = 10
)

// usageHelper runs the program that counts. It mounts the folders of the homes, not their volumes, so that the engine
// does not count the volumes as used. So a workspace can be started, archived or deleted while the helper runs. Unlike
// a storage job, the helper may also read the home of a running workspace. The engine's own measurement (system/df) is
// no alternative: it counts all volumes, without a time limit.
func (h *Volumes) usageHelper(ctx context.Context, limit time.Duration, binds map[string]string, args ...string) (
	contract.UsageResult, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+usageStart)
	defer cancel()
	info, err := h.api.Info(ctx)
	if err != nil {
		return contract.UsageResult{}, engine.Wrap("asking the engine for its data folder", err)
	}
	host := container.HostConfig{
		NetworkMode: "none",
		UsernsMode:  "host",                      // homes have various owners
		CapAdd:      []string{"DAC_READ_SEARCH"}, // so that it can read every file
		Resources:   container.Resources{CPUShares: usageShares, BlkioWeight: usageWeight},
	}
	bind := func(from, to string) {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: from, Target: to, ReadOnly: true})
	}
	bind(volumesFolder(info.DockerRootDir), contract.UsageDiskPath)
	for to, from := range binds {
		bind(from, to)
	}
	run := image.Helper{
		API: h.api, Image: h.opts.JobImage, Labels: h.opts.HelperLabels(spec.KindUsage), All: h.opts.AllHelperLabels(),
	}
	output, err := run.Run(ctx, "measuring homes", container.Config{
		Cmd: append([]string{contract.Usage}, args...),
		Env: []string{contract.EnvUsageSeconds + "=" + strconv.Itoa(int(max(limit, time.Second)/time.Second))},
	}, host)
	if err != nil {
		return contract.UsageResult{}, err
	}
	result, err := contract.ParseUsageResult(output)
	if err != nil {
		return result, fmt.Errorf("measuring homes: %w", err)
	}
	return result, nil
}

// volumesFolder is where the engine keeps the volumes of its driver "local".
func volumesFolder(root string) string { return path.Join(root, "volumes") }

// Usage measures the homes of these workspaces, for at most about limit.
func (h *Volumes) Usage(ctx context.Context, limit time.Duration, ids ...workspace.ID) (
	map[workspace.ID]backend.Usage, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	for _, id := range ids {
		if err := backend.CheckID(id); err != nil {
			return nil, err
		}
	}
	listing, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	list, err := h.api.VolumeList(listing, volume.ListOptions{Filters: h.opts.Filter(spec.KindHome, ids, nil)})
	if err != nil {
		return nil, engine.Wrap("listing volumes", err)
	}
	wanted, binds := spec.Selector(ids), make(map[string]string, len(ids))
	var args []string
	for _, v := range list.Volumes {
		if v == nil || v.Driver != "local" || v.Mountpoint == "" {
			continue
		}
		id := workspace.ID(v.Labels[spec.LabelWorkspace])
		if wanted(id) && v.Name == id.VolumeName() && h.opts.Owns(v.Labels, id, spec.KindHome) {
			at := path.Join(contract.UsageHomesPath, string(id))
			binds[at] = v.Mountpoint
			args = append(args, at)
		}
	}
	if len(args) == 0 {
		return nil, nil
	}
	result, err := h.usageHelper(ctx, limit, binds, args...)
	if err != nil {
		return nil, err
	}
	out := make(map[workspace.ID]backend.Usage, len(result.Homes))
	for id, u := range result.Homes {
		out[workspace.ID(id)] = backend.Usage{Bytes: u.Bytes, Files: u.Files, AtLeast: u.AtLeast}
	}
	return out, nil
}
