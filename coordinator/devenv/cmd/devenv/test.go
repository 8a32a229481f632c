package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/volume"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv/install"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// test runs `go test` with everything that the tests need, and fails when they leave
// something behind.
func test(ctx context.Context, root string, args []string) error {
	if err := install.Ensure(ctx, os.Stderr, install.Authority, install.PostgreSQL, install.Redis, install.Docker,
		install.Busybox, install.Chromium); err != nil {
		return err
	}
	// Held until the end, so that it does not stop and start between packages.
	host, err := server.Docker(ctx)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupLimit)
		defer cancel()
		server.ReleaseDocker(ctx)
	}()
	if err := server.Sweep(); err != nil {
		return err
	}
	before, err := things(ctx, host)
	if err != nil {
		return err
	}
	tested := runCommand(ctx, root, []string{"DOCKER_HOST=" + host}, append([]string{"go", "test"}, args...))

	// Also after Ctrl-C, hence not with ctx.
	left, err := leftovers(context.WithoutCancel(ctx), host, before)
	if err != nil {
		return errors.Join(tested, err)
	}
	if len(left) > 0 {
		return errors.Join(tested, fmt.Errorf("the tests left behind: %s", strings.Join(left, ", ")))
	}
	return tested
}

// cleanupLimit is how long private servers may take to end after their test did.
const cleanupLimit = 30 * time.Second

// leftovers lists what was not there before and does not go away.
func leftovers(ctx context.Context, host string, before map[string]bool) ([]string, error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(cleanupLimit)
	for {
		after, err := things(ctx, host)
		if err != nil {
			return nil, err
		}
		left := slices.DeleteFunc(slices.Sorted(maps.Keys(after)), func(name string) bool { return before[name] })
		if len(left) == 0 {
			return nil, nil
		}
		select {
		case <-tick.C:
		case <-limit:
			return left, nil
		}
	}
}

// things lists what tests could leave behind: containers and volumes that carry our
// label, and the folders of private servers, which last as long as their processes do.
func things(ctx context.Context, host string) (map[string]bool, error) {
	found := map[string]bool{}
	api, err := client.NewClientWithOpts(client.FromEnv, client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return nil, fmt.Errorf("reading a Docker address: %w", err)
	}
	defer api.Close()
	ours := filters.NewArgs(filters.Arg("label", docker.LabelInstallation))
	containers, err := api.ContainerList(ctx, container.ListOptions{All: true, Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("listing containers: %w", err)
	}
	for _, c := range containers {
		found["container "+strings.Join(c.Names, " ")] = true
	}
	volumes, err := api.VolumeList(ctx, volume.ListOptions{Filters: ours})
	if err != nil {
		return nil, fmt.Errorf("listing volumes: %w", err)
	}
	for _, v := range volumes.Volumes {
		found["volume "+v.Name] = true
	}
	folders, err := server.ScratchFolders()
	if err != nil {
		return nil, err
	}
	for _, f := range folders {
		found["folder "+f] = true
	}
	return found, nil
}
