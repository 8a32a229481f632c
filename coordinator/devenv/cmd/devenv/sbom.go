package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"text/tabwriter"

	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/internal/sbom"
)

// bills builds the programs as they are shipped, writes their bills of materials and the texts of their licences, and
// checks the licences.
func bills(ctx context.Context, root string) error {
	dist := filepath.Join(root, ".codehub", "dist")
	if err := os.MkdirAll(dist, 0o755); err != nil {
		return err
	}
	caddy, job := filepath.Join(root, ".codehub", "bin", "caddy-release"), filepath.Join(root, ".codehub", "bin", "storagejob")
	if err := caddybuild.BuildRelease(ctx, root, "", "", caddy); err != nil {
		return err
	}
	cmd := command(ctx, root, "go", "build", "-trimpath", "-o", job, "./storagejob")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("building the storage job: %w", err)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	var errs []error
	for name, program := range map[string]string{"gateway": caddy, "storagejob": job} {
		bill, licences, err := sbom.Of(ctx, root, program, name)
		if err != nil {
			return err
		}
		for file, text := range map[string][]byte{name + ".cdx.json": bill, name + ".licences.txt": licences} {
			if err := os.WriteFile(filepath.Join(dist, file), text, 0o644); err != nil {
				return err
			}
		}
		lines, err := sbom.Table(bill)
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s:\n%s", name, lines)
		errs = append(errs, sbom.Check(bill))
	}
	return errors.Join(append(errs, table.Flush())...)
}
