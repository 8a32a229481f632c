// Package image builds the container images of this repository through the Docker API, without Docker's command line:
// the gateway, the storage job and a terminal workspace.
//
// It has no cache, because the go command and the engine already do no work twice.
package image

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/client"
	"github.com/docker/docker/pkg/jsonmessage"

	"github.com/codehub/gateway/coordinator/devenv/internal/revision"
	"github.com/codehub/gateway/coordinator/devenv/internal/sbom"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/storagejob/contract"
)

// Image is an image of this repository.
type Image struct {
	// Name is the image's name, without a tag.
	Name string
	// folder has the Dockerfile.
	folder string
	// files returns the files beside it, by name, for an engine of that architecture.
	files func(ctx context.Context, root, arch string) (map[string][]byte, error)
}

// The images.
var (
	Gateway    = Image{"codehub/gateway", "caddymodule/deploy", gatewayFiles}
	StorageJob = Image{"codehub/storagejob", "storagejob",
		storageJob(compile, "")}
	// StorageJobTest is the storage job's image with the job's test binary as its program.
	StorageJobTest = Image{"codehub/storagejobtest", "storagejob",
		storageJob(compileTest, testSuffix)}
	Terminal = Image{"codehub/terminal", "coordinator/devenv/webterm",
		program("coordinator/devenv/webterm", compile, "busybox", busybox)}
	// TestWorkspace is the workspace image of the conformance suite of container backends.
	TestWorkspace = Image{"codehub/testworkspace", "coordinator/backend/backendtest/testworkspace",
		program("coordinator/backend/backendtest/testworkspace", compile, "busybox", busybox)}
)

// program returns the files of an image: a program that the compiler makes from a folder of the repository for that
// architecture, and a file of this machine.
func program(
	folder string, compiler func(ctx context.Context, root, folder, arch string) ([]byte, error), file string,
	find func() ([]byte, error),
) func(ctx context.Context, root, arch string) (map[string][]byte, error) {
	return func(ctx context.Context, root, arch string) (map[string][]byte, error) {
		compiled, err := compiler(ctx, root, folder, arch)
		if err != nil {
			return nil, err
		}
		found, err := find()
		return map[string][]byte{filepath.Base(folder): compiled, file: found}, err
	}
}

// storageJob returns the files of the storage job's image, whose program comes from compiler.
func storageJob(
	compiler func(ctx context.Context, root, folder, arch string) ([]byte, error), suffix string,
) func(ctx context.Context, root, arch string) (map[string][]byte, error) {
	files := program("storagejob", compiler, "ca-certificates.crt", authorities)
	return func(ctx context.Context, root, arch string) (map[string][]byte, error) {
		all, err := files(ctx, root, arch)
		if err != nil {
			return nil, err
		}
		all["sbom.cdx.json"], all["licences.txt"], err = sbom.Of(ctx, root, built(root, "storagejob-"+arch+suffix), "storagejob")
		return all, err
	}
}

// Tag returns the reference of the image of this release.
func (i Image) Tag() string { return i.Name + ":" + contract.Release }

// Build makes the image on the engine at host, from the repository in root. It returns a reference to exactly this
// image, valid until the image is removed.
func (i Image) Build(ctx context.Context, host, root string) (ref string, err error) {
	api, err := server.EngineClient(host)
	if err != nil {
		return "", err
	}
	defer api.Close()
	id, _, err := i.build(ctx, api, root)
	if err != nil {
		return "", err
	}
	return i.name(ctx, api, id, strings.TrimPrefix(id, "sha256:")[:16])
}

// BuildTogether makes images on the engine at host, from the repository in root, and returns their references. All
// have the same tag, because the Helm chart takes one tag for the gateway and the storage job. It begins with the
// release, and changes if and only if the content of any image changes.
func BuildTogether(ctx context.Context, host, root string, images ...Image) (refs []string, err error) {
	api, err := server.EngineClient(host)
	if err != nil {
		return nil, err
	}
	defer api.Close()
	var (
		ids []string
		all = sha256.New()
	)
	for _, i := range images {
		id, content, err := i.build(ctx, api, root)
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
		all.Write(content)
	}
	tag := contract.Release + "-" + hex.EncodeToString(all.Sum(nil)[:6])
	for n, i := range images {
		ref, err := i.name(ctx, api, ids[n], tag)
		if err != nil {
			return nil, err
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// name gives the image with that id a tag.
func (i Image) name(ctx context.Context, api *client.Client, id, tag string) (ref string, err error) {
	ref = i.Name + ":" + tag
	if err := api.ImageTag(ctx, id, ref); err != nil {
		return "", fmt.Errorf("naming image %s: %w", i.Name, err)
	}
	return ref, nil
}

// build makes the image with the tag of this release. It returns the image's id and a hash of its content.
func (i Image) build(ctx context.Context, api *client.Client, root string) (id string, content []byte, err error) {
	files, err := i.buildContext(ctx, api, root)
	if err != nil {
		return "", nil, fmt.Errorf("preparing image %s: %w", i.Name, err)
	}
	resp, err := api.ImageBuild(ctx, bytes.NewReader(files), build.ImageBuildOptions{
		Tags: []string{i.Name + ":latest", i.Tag()}, Remove: true, ForceRemove: true,
		NetworkMode: "none",
		Labels: map[string]string{
			"org.opencontainers.image.title":    i.Name,
			"org.opencontainers.image.version":  contract.Release,
			"org.opencontainers.image.revision": revision.Of(ctx, root),
			"org.opencontainers.image.licenses": "Apache-2.0",
		},
	})
	if err != nil {
		return "", nil, fmt.Errorf("building image %s: %w", i.Name, err)
	}
	defer resp.Body.Close()
	if id, err = readBuild(resp.Body); err != nil {
		return "", nil, fmt.Errorf("building image %s: %w", i.Name, err)
	}
	sum := sha256.Sum256(files)
	return id, sum[:], nil
}

// buildContext returns the build context, a tar archive. Equal files make an equal archive.
func (i Image) buildContext(ctx context.Context, api *client.Client, root string) ([]byte, error) {
	version, err := api.ServerVersion(ctx)
	if err != nil {
		return nil, fmt.Errorf("asking the Docker engine for its version: %w", err)
	}
	files, err := i.files(ctx, root, version.Arch)
	if err != nil {
		return nil, err
	}
	if files["Dockerfile"], err = os.ReadFile(filepath.Join(root, i.folder, "Dockerfile")); err != nil {
		return nil, err
	}
	var entries []entry
	for _, name := range slices.Sorted(maps.Keys(files)) {
		entries = append(entries, entry{name, 0o755, 0, files[name]})
	}
	return pack(entries)
}

// compile builds a static program for the engine.
func compile(ctx context.Context, root, folder, arch string) ([]byte, error) {
	return run(ctx, root, folder, arch, "", "build")
}

// testSuffix is the end of the name of a test binary.
const testSuffix = "-test"

// compileTest builds the test binary of a folder, as compile does.
func compileTest(ctx context.Context, root, folder, arch string) ([]byte, error) {
	return run(ctx, root, folder, arch, testSuffix, "test", "-c", "-vet=off")
}

// run runs a go command that makes a program.
func run(ctx context.Context, root, folder, arch, suffix string, command ...string) ([]byte, error) {
	return kept(root, filepath.Base(folder)+"-"+arch+suffix, func(out string) error {
		command = append(command, "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", out, "./"+folder)
		cmd := exec.CommandContext(ctx, "go", command...)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch)
		if text, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("compiling %s: %w\n%s", folder, err, text)
		}
		return nil
	})
}

// built is where a program is kept.
func built(root, name string) string { return filepath.Join(root, ".codehub", "bin", name) }

// kept returns a program that build makes. The program stays at the same path. So the next time, the go command finds
// it there and sees whether it is up to date. Several test binaries may build it at the same time.
func kept(root, name string, build func(out string) error) ([]byte, error) {
	out := built(root, name)
	if err := os.MkdirAll(filepath.Dir(out), 0o700); err != nil {
		return nil, err
	}
	lock, err := server.Lock(out + ".lock")
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	if err := build(out); err != nil {
		return nil, err
	}
	return os.ReadFile(out)
}

// entry is a file of a tar archive, or a folder if it has no content.
type entry struct {
	name string
	mode int64
	user int // and group
	body []byte
}

// pack makes a tar archive.
func pack(entries []entry) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.name, Mode: e.mode, Uid: e.user, Gid: e.user, Size: int64(len(e.body)),
			Typeflag: tar.TypeReg}
		if e.body == nil {
			h.Typeflag = tar.TypeDir
		}
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(e.body)
		}
		if err != nil {
			return nil, fmt.Errorf("packing %s: %w", e.name, err)
		}
	}
	return buf.Bytes(), w.Close()
}

// readBuild reads the engine's messages about a build until its end. It returns the image's id or the error in the
// messages.
func readBuild(r io.Reader) (string, error) {
	var result struct{ ID string }
	err := jsonmessage.DisplayJSONMessagesStream(r, io.Discard, 0, false, func(m jsonmessage.JSONMessage) {
		_ = json.Unmarshal(*m.Aux, &result)
	})
	if err == nil && result.ID == "" {
		err = errors.New("the engine names no image")
	}
	return result.ID, err
}

// busybox returns this machine's BusyBox, the shell and tools of the terminal image, if it is static.
func busybox() ([]byte, error) {
	for _, path := range []string{"/bin/busybox", "/usr/bin/busybox", "/bin/busybox.static"} {
		f, err := elf.Open(path)
		if err != nil {
			continue
		}
		static := true
		for _, p := range f.Progs {
			static = static && p.Type != elf.PT_INTERP
		}
		f.Close()
		if static {
			return os.ReadFile(path)
		}
	}
	return nil, errors.New("there is no static BusyBox here (Debian and Ubuntu: package busybox-static)")
}

// authorities returns this machine's bundle of certificate authorities.
func authorities() ([]byte, error) {
	// Debian and Ubuntu; Fedora; Alpine and macOS.
	for _, path := range []string{"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
		"/etc/ssl/cert.pem"} {
		if b, err := os.ReadFile(path); err == nil {
			return b, nil
		}
	}
	return nil, errors.New("there are no certificate authorities here (Debian and Ubuntu: package ca-certificates)")
}

// Root returns the folder of this repository. The working folder must be inside it.
func Root() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/codehub/gateway").Output()
	if err != nil {
		return "", errors.New("the present folder is not inside the repository")
	}
	return strings.TrimSpace(string(out)), nil
}
