package docker

import (
	"context"
	"fmt"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/internal/network"
)

// RemoveEgressRules removes the rules of an abandoned installation.
func RemoveEgressRules(ctx context.Context, o Options) error {
	if err := o.Validate(); err != nil {
		return err
	}
	api, err := engine.Connect(o.Host, o.Transport)
	if err != nil {
		return err
	}
	defer api.Close()
	if err := network.New(api, o.WithDefaults()).Remove(ctx); err != nil {
		return fmt.Errorf("removing the egress rules: %w", err)
	}
	return nil
}
