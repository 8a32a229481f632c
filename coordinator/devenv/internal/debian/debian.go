// Package debian makes the Debian package of the gateway: Caddy, the unit and the sockets of systemd, a
// configuration, the guides and the licence. Files for Debian alone are in caddymodule/deploy/debian.
package debian

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/internal/revision"
	"github.com/codehub/gateway/coordinator/devenv/internal/sbom"
	"github.com/codehub/gateway/storagejob/contract"
)

// Name is the package's name.
const Name = "codehub-gateway"

const (
	// documents is the package's folder for documents, and shared its folder for files that other programs read.
	documents = "usr/share/doc/" + Name
	shared    = "usr/share/" + Name
)

// file is a file of the package that comes from the repository.
type file struct {
	to, from string
	mode     fs.FileMode
}

var files = []file{
	{"etc/codehub/Caddyfile", "caddymodule/deploy/systemd/Caddyfile", 0o644},
	{"usr/lib/systemd/system/codehub.service", "caddymodule/deploy/systemd/codehub.service", 0o644},
	{"usr/lib/systemd/system/codehub.socket", "caddymodule/deploy/systemd/codehub.socket", 0o644},
	{"usr/lib/sysusers.d/" + Name + ".conf", "caddymodule/deploy/debian/sysusers.conf", 0o644},
	{shared + "/alerts.yaml", "caddymodule/deploy/chart/files/alerts.yaml", 0o644},
	{shared + "/dashboard.json", "caddymodule/deploy/chart/files/dashboard.json", 0o644},
	{documents + "/Caddyfile.example", "Caddyfile.example", 0o644},
	{documents + "/README.md", "README.md", 0o644},
	{documents + "/README.ko.md", "README.ko.md", 0o644},
	{documents + "/SECURITY.md", "SECURITY.md", 0o644},
	{documents + "/copyright", "LICENSE", 0o644},
	{"DEBIAN/postinst", "caddymodule/deploy/debian/postinst", 0o755},
	{"DEBIAN/prerm", "caddymodule/deploy/debian/prerm", 0o755},
	{"DEBIAN/postrm", "caddymodule/deploy/debian/postrm", 0o755},
}

// control is the description of the package. The placeholders are version, architecture, and size in KiB.
const control = `Package: ` + Name + `
Version: %s
Architecture: %s
Installed-Size: %d
Maintainer: CodeHub Gateway <https://github.com/codehub/gateway>
Section: net
Priority: optional
Depends: ca-certificates, systemd
Recommends: docker.io | docker-ce
Suggests: postgresql, redis-server | valkey-server
Provides: caddy
Conflicts: caddy
Replaces: caddy
Description: gateway to development containers that sleep while they are not used
 Caddy with the modules of CodeHub Gateway: it wakes a person's workspace when it
 is opened, puts it to sleep when it is not used, and archives it in an object store.
`

// Build makes the package of the repository in root for this machine's architecture, in the folder out,
// and returns its path. The same commit makes the same file.
func Build(ctx context.Context, root, out string) (string, error) {
	architecture, err := output(ctx, root, nil, "dpkg", "--print-architecture")
	if err != nil {
		return "", err
	}
	staged, err := os.MkdirTemp("", "codehub-deb-")
	if err != nil {
		return "", fmt.Errorf("making a folder for the package: %w", err)
	}
	defer os.RemoveAll(staged)
	if err := stage(ctx, root, staged); err != nil {
		return "", fmt.Errorf("collecting the files of the package: %w", err)
	}
	size, err := sizeOf(staged)
	if err != nil {
		return "", err
	}
	version := Version(ctx, root)
	text := fmt.Sprintf(control, version, architecture, size>>10)
	if err := write(staged, "DEBIAN/control", []byte(text), 0o644); err != nil {
		return "", err
	}
	if err := write(staged, "DEBIAN/conffiles", []byte("/etc/codehub/Caddyfile\n"), 0o644); err != nil {
		return "", err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return "", fmt.Errorf("making the folder of the package: %w", err)
	}
	path := filepath.Join(out, Name+"_"+version+"_"+architecture+".deb")
	epoch := "SOURCE_DATE_EPOCH=" + strconv.FormatInt(revision.Time(ctx, root).Unix(), 10)
	_, err = output(ctx, root, []string{epoch}, "dpkg-deb", "--root-owner-group", "-Zgzip", "--build", staged, path)
	return path, err
}

// Version is the package's version, such as 0.1.0+git20260802134127.82b487a3c1d2: the release, and the time (UTC) and
// the name of the commit. For dpkg, a later commit of the same release is newer, and a commit with local changes is
// newer than the same commit without them. Outside a repository it is 0.1.0+dev, which is older than any commit.
func Version(ctx context.Context, root string) string {
	of := revision.Of(ctx, root)
	if of == "" {
		return contract.Release + "+dev"
	}
	// Debian allows no hyphen in it.
	return contract.Release + "+git" + revision.Time(ctx, root).UTC().Format("20060102150405") + "." + strings.ReplaceAll(of, "-", ".")
}

// stage collects the files of the package in a folder.
func stage(ctx context.Context, root, staged string) error {
	for _, f := range files {
		if strings.HasPrefix(f.to, documents) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, f.from))
		if err != nil {
			return err
		}
		if err := write(staged, f.to, text, f.mode); err != nil {
			return err
		}
	}
	if err := stageDocuments(root, staged); err != nil {
		return err
	}
	caddy := filepath.Join(staged, "usr", "bin", "caddy")
	if err := os.MkdirAll(filepath.Dir(caddy), 0o755); err != nil {
		return err
	}
	if err := caddybuild.BuildRelease(ctx, root, "linux", "", caddy); err != nil {
		return err
	}
	bill, licences, err := sbom.Of(ctx, root, caddy, Name)
	if err != nil {
		return err
	}
	return errors.Join(write(staged, documents+"/sbom.cdx.json", bill, 0o644),
		write(staged, documents+"/licences.txt", licences, 0o644))
}

// write writes a file of the package, regardless of the user's umask.
func write(staged, name string, text []byte, mode fs.FileMode) error {
	path := filepath.Join(staged, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(path, text, mode); err != nil {
		return err
	}
	return os.Chmod(path, mode)
}

// sizeOf returns the bytes of the files in a folder, and makes the folders readable for everyone.
func sizeOf(folder string) (size int64, err error) {
	err = filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if d.IsDir() {
			return os.Chmod(path, 0o755)
		}
		size += info.Size()
		return nil
	})
	return size, err
}

// output returns what a command prints.
func output(ctx context.Context, dir string, env []string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", argv[0], err, out)
	}
	return strings.TrimSpace(string(out)), nil
}
