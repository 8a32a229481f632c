package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/store/auditlog"
)

// egressCommand is `caddy codehub egress`. It does not use the API, because it must be able to remove the rules even
// when the database is gone.
func egressCommand(resolve Resolver) *cobra.Command {
	cmd := &cobra.Command{Use: "egress", Short: "Manages the firewall rules about what workspaces reach",
		Long: `Manages the firewall rules about what workspaces reach. Caddy makes them itself; caddy
codehub doctor says whether they stand.`,
		Example: "  $ caddy codehub egress remove"}
	remove := &cobra.Command{
		Use: "remove", Short: "Removes the rules from the engine's host",
		Long: `Removes the firewall rules of the installation from the host of its container engine, as the
last step of giving up an installation, after a question. While Caddy runs, it makes them
again; to run without them, write egress enforce open. It also forgets that the engine can
have rules, so that egress enforce auto decides anew. On Kubernetes there are NetworkPolicies
instead.

The audit says who has asked for it. Where the database is gone already, --no-audit leaves that out.`,
		Example: "  $ caddy codehub egress remove\n  $ caddy codehub egress remove --yes --no-audit",
	}
	yes := remove.Flags().BoolP("yes", "y", false, "do not ask")
	unaudited := remove.Flags().Bool("no-audit", false, "ask no database, and write nothing to the audit")
	Group(cmd, resolve.WithSettings(remove, func(ctx context.Context, cmd *cobra.Command, s Settings) error {
		if s.Options.Kubernetes != nil {
			return errors.New("on Kubernetes the rules are NetworkPolicies of this installation, and no firewall: " +
				"remove them with kubectl delete networkpolicy -l " +
				spec.LabelInstallation + "=" + s.Options.Installation())
		}
		if err := Confirm(cmd, *yes, "Without these rules, workspaces that still run reach this host, its networks and each other."); err != nil {
			return err
		}
		if !*unaudited {
			if err := auditEgress(ctx, s); err != nil {
				return err
			}
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

// auditEgress writes into the audit that the rules are about to be removed.
func auditEgress(ctx context.Context, s Settings) error {
	db, err := s.database(ctx)
	if err != nil {
		return fmt.Errorf("%w; if the database is gone for good, add --no-audit", err)
	}
	defer db.Close()
	return auditlog.New(db.DB, zap.NewNop()).Write(asOperator(ctx), audit.SystemEgress, "", nil)
}
