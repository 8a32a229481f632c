package command

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// healthLimit bounds how long a server may take to answer.
const healthLimit = 3 * time.Second

// healthCommand is `health`, for container engines and service managers: an image without a shell has no other program
// that can ask.
func healthCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "health [address]", Short: "Asks a running server whether it is ready",
		Long: `Asks a server for /health/ready. The exit code is 0 if it can serve people now, and 1 if
not, or if nothing answers. The address is http://localhost:8080 unless it is given.`,
		Example: "  $ caddy codehub health\n  $ caddy codehub health https://codehub.example.com",
		RunE: func(cmd *cobra.Command, args []string) error {
			address := "http://localhost:8080"
			if len(args) == 1 {
				address = args[0]
			} else if err := Arguments(cmd, 0)(args); err != nil {
				return Usage(cmd, err)
			}
			return ready(cmd.Context(), strings.TrimSuffix(address, "/"))
		},
	}
	HideDatabase(cmd.Flags())
	return cmd
}

// ready returns nil if the server at that address is ready.
func ready(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, healthLimit)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address+"/health/ready", nil)
	if err != nil {
		return fmt.Errorf("the address %s: %w", address, err)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("asking whether the server is ready: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(answer.Body, 1<<10))
		return fmt.Errorf("the server is not ready: %s: %s", answer.Status, strings.TrimSpace(string(text)))
	}
	return nil
}
