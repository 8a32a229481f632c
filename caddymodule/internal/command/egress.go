package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// egressCommand is `caddy codehub egress`.
func egressCommand(resolve Resolver) *cobra.Command {
	cmd := &cobra.Command{Use: "egress", Short: "Manages the firewall rules about what workspaces reach",
		Long: `Manages the firewall rules about what workspaces reach. Caddy makes them itself; caddy
codehub doctor says whether they stand.`,
		Example: "  $ caddy codehub egress remove"}
	Group(cmd, resolve.WithSettings(&cobra.Command{
		Use: "remove", Short: "Removes the rules from the engine's host",
		Long: `Removes the firewall rules of the installation from the host of its container engine, as the
last step of giving up an installation. While Caddy runs, it makes them again; to run
without them, write egress enforce open. It also forgets that the engine can have rules, so
that egress enforce auto decides anew. On Kubernetes there are NetworkPolicies instead.`,
		Example: "  $ caddy codehub egress remove",
	}, func(ctx context.Context, cmd *cobra.Command, s Settings) error {
		if s.Options.Kubernetes != nil {
			return errors.New("on Kubernetes the rules are NetworkPolicies of this installation, and no firewall: " +
				"remove them with kubectl delete networkpolicy -l " +
				spec.LabelInstallation + "=" + s.Options.Installation())
		}
		err := docker.RemoveEgressRules(ctx, s.Options.Docker)
		var missing *backend.MissingImageError
		if errors.As(err, &missing) {
			return fmt.Errorf("the image that makes and removes the rules is not here: docker pull %s, or make images",
				missing.Image)
		}
		if err == nil {
			fmt.Fprintln(cmd.OutOrStdout(), "The firewall rules of this installation are removed.")
		}
		return err
	}))
	return cmd
}
