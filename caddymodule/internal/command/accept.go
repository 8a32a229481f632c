package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/words"
)

// accepted names the resources whose identity can be accepted.
var accepted = map[store.Resource]string{
	store.ResourceBackend: words.Of("backend", nil).String(),
	store.ResourceBucket:  "bucket of the archives",
}

// acceptCommand is `caddy codehub accept`. It does not use the API, which deliberately has no route that accepts
// another engine or bucket.
func acceptCommand(resolve Resolver) *cobra.Command {
	cmd := &cobra.Command{
		Use: "accept backend|bucket", Short: "Accepts another container engine, cluster or bucket as the right one",
		Long: `Accepts another container engine, cluster or bucket as the right one.

An installation records which engine or cluster and which bucket it uses. When another one answers
in its place (another host, a data folder or a bucket that is empty or belongs to
another installation), its answers change no state, nothing is written or deleted there,
and what runs goes on. The usual cause is a wrong address or an unmounted folder:
correct that and accept nothing.

If the change was meant, this command shows what is expected and what was found, and asks
whether to accept that. From then on what the new one does not have is taken for lost:
workspaces whose files were only on the old one are in ERROR (DataLost). Files are not
deleted by that, and it can be accepted back.

The exit code is 1 when nothing else was found than what is expected.`,
		Example: `  $ caddy codehub accept backend
  $ caddy codehub accept bucket --yes`,
	}
	yes := cmd.Flags().BoolP("yes", "y", false, "do not ask")
	return resolve.WithServers(cmd, func(args []string) error {
		if err := Arguments(cmd, 1)(args); err != nil {
			return err
		}
		if _, ok := accepted[store.Resource(args[0])]; !ok {
			return fmt.Errorf("there is no %q to accept: write backend or bucket", args[0])
		}
		return nil
	}, func(ctx context.Context, s Servers, args []string) error {
		return accept(ctx, s, store.Resource(args[0]), *yes)
	})
}

// accept replaces the recorded identity of r with the identity that the coordinator found instead.
func accept(ctx context.Context, s Servers, r store.Resource, yes bool) error {
	all, err := s.Store.Identities(ctx)
	if err != nil {
		return err
	}
	i := all[r]
	switch {
	case i.Found == "" && i.Identity == "":
		return fmt.Errorf("nothing is recorded about the %s yet: the first process that leads records what it finds",
			accepted[r])
	case i.Found == "":
		return fmt.Errorf("there is nothing to accept: the %s is the expected one, %s", accepted[r], i.Identity)
	}
	s.Say("The %s\n  expected: %s\n  found:    %s (%s ago)",
		accepted[r], cmp.Or(i.Identity, "nothing yet"), i.Found, i.FoundAgo.Round(time.Second))
	if i.Accepted == i.Found {
		s.Say("It is accepted already; the process that leads adopts it when it next looks.")
		return nil
	}
	question := fmt.Sprintf("Is what was found the right %s from now on? What it does not have is taken for lost.",
		accepted[r])
	if err := Confirm(s.Cmd, yes, question); err != nil {
		return err
	}
	if err := s.Store.AcceptIdentity(ctx, r, i.Found); errors.Is(err, store.ErrNothingToAccept) {
		return errors.New("something else was found meanwhile, so nothing was accepted: run this again")
	} else if err != nil {
		return err
	}
	s.Say("Accepted. The process that leads adopts it when it next looks.")
	return nil
}
