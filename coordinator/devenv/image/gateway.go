package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/internal/sbom"
)

// User is the user that the gateway's image runs as: the number of a user without rights.
const User = 65532

// gatewayFiles returns what the gateway's Dockerfile needs.
func gatewayFiles(ctx context.Context, root, arch string) (map[string][]byte, error) {
	caddy, err := kept(root, "caddy-"+arch,
		func(out string) error { return caddybuild.BuildRelease(ctx, root, "linux", arch, out) })
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
	bill, licences, err := sbom.Of(ctx, root, built(root, "caddy-"+arch), "gateway")
	if err != nil {
		return nil, err
	}
	rootfs, err := pack(gatewayFolders(cas, bill, licences))
	return map[string][]byte{"caddy": caddy, "Caddyfile": caddyfile, "rootfs.tar": rootfs}, err
}

// gatewayFolders are the root file system around the program. A build from scratch has no shell that could make folders
// and change their owners.
func gatewayFolders(authorities, bill, licences []byte) []entry {
	return []entry{
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
		{"usr/", 0o755, 0, nil},
		{"usr/share/", 0o755, 0, nil},
		{"usr/share/licenses/", 0o755, 0, nil},
		{"usr/share/licenses/gateway.txt", 0o644, 0, licences},
		{"usr/share/sbom/", 0o755, 0, nil},
		{"usr/share/sbom/gateway.cdx.json", 0o644, 0, bill},
	}
}
