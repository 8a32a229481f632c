package image

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// User is the user that the gateway's image runs as. It has a number and no rights.
const User = 65532

// gatewayFiles returns what the gateway's Dockerfile needs.
func gatewayFiles(ctx context.Context, root, arch string) (map[string][]byte, error) {
	program := filepath.Join(root, ".codehub", "bin", "caddy-"+arch)
	if err := os.MkdirAll(filepath.Dir(program), 0o700); err != nil {
		return nil, err
	}
	lock, err := server.Lock(program + ".lock")
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := caddybuild.BuildFor(ctx, root, "linux", arch, program); err != nil {
		return nil, err
	}
	caddy, err := os.ReadFile(program)
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

// gatewayRoot returns the root file system around the program, as a tar archive: a build
// from scratch has no shell to make folders and give them away.
func gatewayRoot(authorities []byte) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range []struct {
		name string
		mode int64
		user int
		body string
	}{
		{"tmp/", 0o1777, 0, ""},
		{"config/", 0o700, User, ""},
		{"data/", 0o700, User, ""},
		{"etc/", 0o755, 0, ""},
		{"etc/passwd", 0o644, 0, fmt.Sprintf("root:x:0:0:root:/:/none\ncodehub:x:%d:%d:codehub:/data:/none\n", User, User)},
		{"etc/group", 0o644, 0, fmt.Sprintf("root:x:0:\ncodehub:x:%d:\n", User)},
		{"etc/ssl/", 0o755, 0, ""},
		{"etc/ssl/certs/", 0o755, 0, ""},
		{"etc/ssl/certs/ca-certificates.crt", 0o644, 0, string(authorities)},
	} {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.user, Gid: e.user, Size: int64(len(e.body)), Typeflag: tar.TypeReg}
		if e.body == "" {
			h.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(h); err != nil {
			return nil, fmt.Errorf("packing %s: %w", e.name, err)
		}
		if _, err := w.Write([]byte(e.body)); err != nil {
			return nil, fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	return buf.Bytes(), w.Close()
}
