package workspaces

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/caddymodule/internal/command"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/workspace"
)

// adoptCommand is `workspace adopt`. It does not use the API, which has no route that gives a user files of unknown
// owners.
func adoptCommand(resolve command.Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "adopt ID", Short: "Takes up a workspace that the database does not know",
		Long: `Takes up a workspace of which archives or a volume exist, but no row of the database: it
was made after the backup from which the database was restored. caddy codehub verify lists
them. Whose they were is not written in an archive, so --owner names the user. It gets its
former address, a new name, and is archived.

Its files are those of the newest archive, or of the one that --from-archive names. Where it
has a volume, it is in Conflict then: caddy codehub workspace recover shows what there is.
It works on the installation's own servers, and no limit holds.`,
		Example: `  $ caddy codehub verify
  $ caddy codehub workspace adopt ` + exampleID + ` --owner ann --name thesis`,
	}
	owner := cmd.Flags().String("owner", "", "name of the user to whom it belongs (required)")
	name := cmd.Flags().String("name", "", "name of the workspace (default: recovered, and the beginning of its id)")
	archive := cmd.Flags().String("from-archive", "", "go on with the files of the archive with this key")
	return resolve.WithServers(cmd, func(args []string) error {
		if err := command.Arguments(cmd, 1)(args); err != nil {
			return err
		}
		if *owner == "" {
			return errors.New("whose is it? Write --owner and the name of a user")
		}
		return checkID(args[0])
	}, func(ctx context.Context, s command.Servers, args []string) error {
		id := workspace.ID(args[0])
		called := cmp.Or(*name, "recovered "+args[0][:8])
		return withService(s, func(p *service.Service) error {
			w, err := p.Adopt(ctx, actor, id, *owner, called, *archive)
			switch {
			case errors.Is(err, service.ErrKnown):
				return fmt.Errorf("the database has this workspace: caddy codehub workspace explain %s", id)
			case errors.Is(err, service.ErrNoOwner):
				return fmt.Errorf("there is no user %q; to see who there is: caddy codehub user list", *owner)
			case errors.Is(err, service.ErrNothingLeft):
				return fmt.Errorf("of %s there is no volume, and no such archive", id)
			case err != nil:
				return err
			}
			from := cmp.Or(w.ArchiveKey, "its volume, about which you choose: caddy codehub workspace recover "+args[0])
			say(cmd, "%s belongs to %s now, with the files of %s.", w.Name, *owner, from)
			return nil
		})
	})
}
