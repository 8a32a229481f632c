package engine

import (
	"context"
	"encoding/json"

	"github.com/docker/docker/api/types/container"
)

// Usage asks the engine once for a container's resource usage. For a container that has ended, the time of the answer
// is zero. The errors are the engine's own.
func (c *Client) Usage(ctx context.Context, containerID string) (used container.StatsResponse, err error) {
	answer, err := c.ContainerStatsOneShot(ctx, containerID)
	if err != nil {
		return used, err
	}
	defer answer.Body.Close()
	return used, json.NewDecoder(answer.Body).Decode(&used)
}
