package image

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/codehub/gateway/coordinator/devenv/internal/sbom"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// Contents writes the content of an installation's images, for this machine's architecture, into one folder per image
// below dir: gateway, storagejob, and store (the object store of the tests). If run as root, it gives the files to the
// users of the images. It is for builds on machines that have no engine yet.
func Contents(ctx context.Context, root, dir string) error {
	gateway, err := gatewayFiles(ctx, root, runtime.GOARCH)
	if err != nil {
		return err
	}
	cas, err := authorities()
	if err != nil {
		return err
	}
	bill, licences, err := sbom.Of(ctx, root, built(root, "caddy-"+runtime.GOARCH), "gateway")
	if err != nil {
		return err
	}
	job, err := StorageJob.files(ctx, root, runtime.GOARCH)
	if err != nil {
		return err
	}
	path, err := server.BuildS3(ctx)
	if err != nil {
		return err
	}
	store, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	for name, entries := range map[string][]entry{
		"gateway": append(gatewayFolders(cas, bill, licences),
			entry{"usr/bin/", 0o755, 0, nil}, entry{"usr/bin/caddy", 0o755, 0, gateway["caddy"]},
			entry{"etc/caddy/", 0o755, 0, nil}, entry{"etc/caddy/Caddyfile", 0o755, 0, gateway["Caddyfile"]}),
		"storagejob": {
			{"etc/", 0o755, 0, nil}, {"etc/ssl/", 0o755, 0, nil}, {"etc/ssl/certs/", 0o755, 0, nil},
			{"etc/ssl/certs/ca-certificates.crt", 0o755, 0, cas}, {"storagejob", 0o755, 0, job["storagejob"]},
			{"usr/", 0o755, 0, nil}, {"usr/share/", 0o755, 0, nil},
			{"usr/share/licenses/", 0o755, 0, nil}, {"usr/share/licenses/storagejob.txt", 0o755, 0, job["licences.txt"]},
			{"usr/share/sbom/", 0o755, 0, nil}, {"usr/share/sbom/storagejob.cdx.json", 0o755, 0, job["sbom.cdx.json"]},
		},
		"store": {
			{"usr/", 0o755, 0, nil}, {"usr/bin/", 0o755, 0, nil}, {"usr/bin/versitygw", 0o755, 0, store},
			{"objects/", 0o700, User, nil},
		},
	} {
		if err := lay(filepath.Join(dir, name), entries); err != nil {
			return fmt.Errorf("writing the contents of image %s: %w", name, err)
		}
	}
	return nil
}

// lay writes entries into a folder.
func lay(dir string, entries []entry) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.name)
		var err error
		if strings.HasSuffix(e.name, "/") {
			err = os.Mkdir(path, 0o700)
		} else {
			err = os.WriteFile(path, e.body, 0o600)
		}
		if err == nil && os.Getuid() == 0 {
			err = os.Chown(path, e.user, e.user)
		}
		if err == nil {
			// The sticky bit in Go's form.
			mode := os.FileMode(e.mode & 0o777) //nolint:gosec // it is a mode
			if e.mode&0o1000 != 0 {
				mode |= os.ModeSticky
			}
			err = os.Chmod(path, mode)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
