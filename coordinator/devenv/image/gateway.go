package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
)

// User is the user that the gateway's image runs as. It has a number and no rights.
const User = 65532

// gatewayFiles returns what the gateway's Dockerfile needs.
func gatewayFiles(ctx context.Context, root, arch string) (map[string][]byte, error) {
	caddy, err := kept(root, "caddy-"+arch,
		func(out string) error { return caddybuild.BuildFor(ctx, root, "linux", arch, out) })
	if err != nil {
		return nil, err
	}
	caddyfile, err := os.ReadFile(filepath.Join(root, "Caddyfile.example"))
	if err != nil {
		return nil, err
	}
	cas, err := authorities()
	if err != nil {
		return nil, err
	}
	rootfs, err := gatewayRoot(cas)
	return map[string][]byte{"caddy": caddy, "Caddyfile": caddyfile, "rootfs.tar": rootfs}, err
}

// gatewayRoot returns the root file system around the program, as a tar archive. A build from
// scratch has no shell to make folders and give them away.
func gatewayRoot(authorities []byte) ([]byte, error) {
	return pack([]entry{
		{"tmp/", 0o1777, 0, nil},
		{"config/", 0o700, User, nil},
		{"data/", 0o700, User, nil},
		{"etc/", 0o755, 0, nil},
		{"etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/:/none\ncodehub:x:%d:%d:codehub:/data:/none\n",
			User, User)},
		{"etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\ncodehub:x:%d:\n", User)},
		{"etc/ssl/", 0o755, 0, nil},
		{"etc/ssl/certs/", 0o755, 0, nil},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, authorities},
	})
}
