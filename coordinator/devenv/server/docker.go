package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/docker/docker/client"
)

// Docker returns the address of the Docker engine that answers.
func Docker(ctx context.Context) (string, error) {
	host, err := answeringEngine(ctx)
	if err != nil {
		return "", err
	}
	return host, nil
}

// answeringEngine looks for an engine where Docker's own tools do: DOCKER_HOST
// when it is set, and nowhere else then; else the known sockets.
func answeringEngine(ctx context.Context) (string, error) {
	if host := os.Getenv("DOCKER_HOST"); host != "" {
		if err := pingEngine(ctx, host); err != nil {
			return "", fmt.Errorf("DOCKER_HOST is set to %s: %w", host, err)
		}
		return host, nil
	}
	hosts := []string{client.DefaultDockerHost}
	if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" { // rootless Docker
		hosts = append(hosts, "unix://"+filepath.Join(dir, "docker.sock"))
	}
	if home, err := os.UserHomeDir(); err == nil { // Docker Desktop on macOS and Linux
		hosts = append(hosts, "unix://"+filepath.Join(home, ".docker/run/docker.sock"),
			"unix://"+filepath.Join(home, ".docker/desktop/docker.sock"))
	}
	var first error
	for _, host := range hosts {
		err := pingEngine(ctx, host)
		if err == nil {
			return host, nil
		}
		if first == nil {
			first = err
		}
	}
	return "", first
}

func pingEngine(ctx context.Context, host string) error {
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		return fmt.Errorf("reading a Docker address: %w", err)
	}
	defer api.Close()
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := api.Ping(ctx); err != nil {
		return fmt.Errorf("asking the Docker engine: %w", err)
	}
	return nil
}
