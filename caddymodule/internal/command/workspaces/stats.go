package workspaces

import (
	"context"
	"encoding/json"
	"fmt"
	"text/tabwriter"
	"time"

	"github.com/docker/go-units"
	"github.com/spf13/cobra"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/command"
)

// statsInterval is the time over which processor use is measured.
const statsInterval = time.Second

func statsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "stats WORKSPACE", Short: "Shows what a running workspace uses",
		Long: `Shows the processor, memory and disk that a running workspace of yours uses, and the ports on which something
listens there; those are not known while it dozes. With --json the result is the object of the API's GET /workspaces/{id}/stats, whose cpu.seconds
counts from the start of the container.`,
		Example: `  $ caddy codehub workspace stats thesis
  $ caddy codehub workspace stats thesis --json | jq -r '.ports[].url'`,
	}
	asJSON := cmd.Flags().Bool("json", false, "print JSON")
	return onOwnWorkspace(cmd, 0, func(ctx context.Context, p server, w v1.Workspace, _ []string) error {
		var raw json.RawMessage
		if err := p.Do(ctx, "GET", pathOf(w.ID, "/stats"), nil, &raw); err != nil || *asJSON {
			if err == nil {
				err = command.PrintJSON(cmd.OutOrStdout(), raw)
			}
			return err
		}
		var first, now v1.Stats
		if err := json.Unmarshal(raw, &first); err != nil {
			return fmt.Errorf("reading what the workspace uses: %w", err)
		}
		select {
		case <-time.After(statsInterval):
		case <-ctx.Done():
			return ctx.Err()
		}
		if err := p.Do(ctx, "GET", pathOf(w.ID, "/stats"), nil, &now); err != nil {
			return err
		}
		return printStats(cmd, p, first, now)
	})
}

func printStats(cmd *cobra.Command, p server, first, now v1.Stats) error {
	t := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
	if passed := now.At.Sub(first.At).Seconds(); passed > 0 && first.CPU.Seconds != nil && now.CPU.Seconds != nil {
		cpu := fmt.Sprintf("%.2f", (*now.CPU.Seconds-*first.CPU.Seconds)/passed)
		if now.CPU.Limit != nil {
			cpu += fmt.Sprintf(" of %g", *now.CPU.Limit)
		}
		fmt.Fprintf(t, "cpu\t%s cores\n", cpu)
	}
	fmt.Fprintf(t, "memory\t%s\n", bytesOf(now.Memory.Used, now.Memory.Limit))
	fmt.Fprintf(t, "home\t%s\n", bytesOf(now.Home.Used, now.Home.Limit))
	if now.Home.Free != nil {
		fmt.Fprintf(t, "free\t%s on its disk\n", bytesOf(now.Home.Free, nil))
	}
	if now.Processes != nil {
		fmt.Fprintf(t, "processes\t%d\n", *now.Processes)
	}
	for _, port := range now.Ports {
		at := ""
		if port.URL != nil {
			at = p.Address(*port.URL)
		}
		fmt.Fprintf(t, "port\t%d\t%s\n", port.Port, at)
	}
	return t.Flush()
}

// bytesOf returns an amount as people write it, with its limit.
func bytesOf(used, limit *int64) string {
	if used == nil {
		return "unknown"
	}
	text := units.BytesSize(float64(*used))
	if limit != nil {
		text += " of " + units.BytesSize(float64(*limit))
	}
	return text
}
