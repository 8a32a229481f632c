package image

import (
	"archive/tar"
	"bytes"
	"context"
	"debug/elf"
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/codehub/gateway/coordinator/devenv/server"
)

// StorageJobName and TerminalName are the images' names, without a tag.
const (
	StorageJobName = "codehub/storagejob"
	TerminalName   = "codehub/terminal"
)

// StorageJob builds the image of the storage job, from storagejob/Dockerfile.
func (b *Builder) StorageJob(ctx context.Context) (Built, error) {
	dockerfile, err := os.ReadFile(filepath.Join(b.root, "storagejob", "Dockerfile"))
	if err != nil {
		return Built{}, fmt.Errorf("reading the storage job's Dockerfile: %w", err)
	}
	program, err := b.program(ctx, "./storagejob")
	if err != nil {
		return Built{}, err
	}
	authorities, err := certificateAuthorities()
	if err != nil {
		return Built{}, err
	}
	files, err := pack(
		entry{name: "Dockerfile", body: dockerfile, mode: 0o644},
		entry{name: "ca-certificates.crt", body: authorities, mode: 0o644},
		entry{name: "storagejob", body: program, mode: 0o755},
	)
	if err != nil {
		return Built{}, err
	}
	return b.ensure(ctx, StorageJobName, files)
}

const (
	// The whole root file system comes as one archive, because adding an archive keeps
	// owners and modes, and copying files does not: a new volume mounted at
	// /home/coder inherits the owner from the image.
	terminalDockerfile = `FROM %s
ADD rootfs.tar /
RUN ["/bin/busybox", "--install", "-s", "/bin"]
ENV HOME=/home/coder USER=coder PATH=/usr/local/bin:/bin LANG=C.UTF-8
USER 1000:1000
WORKDIR /home/coder
EXPOSE 8080
ENTRYPOINT ["/usr/local/bin/webterm"]
`
	// publicBusybox is the base where the host has no static BusyBox of its own.
	publicBusybox = "busybox:1.37.0-musl"
	profile       = `export PS1='\u@\h:\w\$ '` + "\n"
	users         = "root:x:0:0:root:/root:/bin/sh\ncoder:x:1000:1000:coder:/home/coder:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
	groups        = "root:x:0:\ncoder:x:1000:\nnogroup:x:65534:\n"
)

// Terminal builds the image of the terminal workspace: webterm, and the host's
// static BusyBox (Debian's package busybox-static) as shell and tools. A host
// without one takes BusyBox's public image instead, if the engine can pull it.
func (b *Builder) Terminal(ctx context.Context) (Built, error) {
	program, err := b.program(ctx, "./coordinator/devenv/webterm")
	if err != nil {
		return Built{}, err
	}
	const coder = 1000
	entries := []entry{
		{name: "bin/", mode: 0o755},
		{name: "etc/", mode: 0o755},
		{name: "etc/group", body: []byte(groups), mode: 0o644},
		{name: "etc/passwd", body: []byte(users), mode: 0o644},
		{name: "etc/profile", body: []byte(profile), mode: 0o644},
		{name: "home/", mode: 0o755},
		{name: "home/coder/", mode: 0o755, owner: coder},
		{name: "root/", mode: 0o700},
		{name: "tmp/", mode: 0o1777},
		{name: "usr/", mode: 0o755},
		{name: "usr/local/", mode: 0o755},
		{name: "usr/local/bin/", mode: 0o755},
		{name: "usr/local/bin/webterm", body: program, mode: 0o755},
	}
	base := publicBusybox
	if busybox, ok := staticBusybox(b.arch); ok {
		base = "scratch"
		entries = append(entries, entry{name: "bin/busybox", body: busybox, mode: 0o755})
	}
	rootfs, err := pack(entries...)
	if err != nil {
		return Built{}, err
	}
	files, err := pack(
		entry{name: "Dockerfile", body: fmt.Appendf(nil, terminalDockerfile, base), mode: 0o644},
		entry{name: "rootfs.tar", body: rootfs, mode: 0o644},
	)
	if err != nil {
		return Built{}, err
	}
	built, err := b.ensure(ctx, TerminalName, files)
	if err != nil && base == publicBusybox {
		return Built{}, fmt.Errorf("%w (a static BusyBox on this host would do as well: Debian and Ubuntu have it in the package busybox-static)", err)
	}
	return built, err
}

// staticBusybox returns the host's BusyBox if it runs alone in an image for arch.
func staticBusybox(arch string) ([]byte, bool) {
	machines := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64, "arm": elf.EM_ARM, "386": elf.EM_386}
	for _, path := range []string{"/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static"} {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		f, err := elf.NewFile(bytes.NewReader(b))
		if err != nil || f.Machine != machines[arch] {
			continue
		}
		static := true
		for _, p := range f.Progs {
			static = static && p.Type != elf.PT_INTERP
		}
		if static {
			return b, true
		}
	}
	return nil, false
}

// certificateAuthorities returns the host's bundle of certificate authorities.
func certificateAuthorities() ([]byte, error) {
	// Debian and Ubuntu; Fedora; Alpine and macOS.
	for _, path := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"} {
		if b, err := os.ReadFile(path); err == nil {
			return b, nil
		}
	}
	return nil, &server.MissingError{Program: "a bundle of certificate authorities", Package: "ca-certificates"}
}

// HasAuthorities tells whether this host has certificate authorities for the storage
// job's image.
func HasAuthorities() bool {
	_, err := certificateAuthorities()
	return err == nil
}

// HasBusybox tells whether there is a static BusyBox for this host's architecture.
func HasBusybox() bool {
	_, ok := staticBusybox(runtime.GOARCH)
	return ok
}

// entry is a file of an archive, or a folder if its name ends with a slash.
type entry struct {
	name  string
	body  []byte
	mode  int64
	owner int
}

// pack makes a tar archive that depends on the entries alone: times are zero.
func pack(entries ...entry) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.owner, Gid: e.owner, Size: int64(len(e.body)), Typeflag: tar.TypeReg}
		if e.name[len(e.name)-1] == '/' {
			header.Typeflag = tar.TypeDir
		}
		if err := w.WriteHeader(header); err != nil {
			return nil, fmt.Errorf("packing %s: %w", e.name, err)
		}
		if _, err := w.Write(e.body); err != nil {
			return nil, fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	if err := w.Close(); err != nil {
		return nil, fmt.Errorf("packing files: %w", err)
	}
	return buf.Bytes(), nil
}
