package image

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"
	"github.com/docker/go-connections/nat"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Workspace is an image as a workspace's container uses it.
type Workspace struct {
	// Reference is the image from which the container is created.
	Reference string
	// Folders are the folders below the home that the image expects: its volumes and its working folder, the outer ones
	// first.
	Folders []string

	of      string   // the original image, if Reference is the one without volumes
	mounted []string // the volumes that the image still has
	refused error    // why it still has them
}

// Vanished reports whether a container could not be created because the image without volumes was removed. The next
// call of [Store.ForWorkspace] creates that image again.
func (w Workspace) Vanished(err error) bool {
	var missing *backend.MissingImageError
	return errors.As(err, &missing) && missing.Image == w.Reference && w.Reference != w.of
}

// ForWorkspace returns the image for a workspace's container: without the volumes that it declares (SPEC 7). If the
// engine lacks the image, the error is a [backend.MissingImageError].
//
// An engine mounts an empty volume at each declared path, even inside the home, and removes it with the container. A
// container cannot be created without its image's volumes. So the container is created from an image of the same layers
// whose configuration has no volumes. That image has our labels and no name. `docker image prune` may remove it.
//
// If the engine refuses that image, ForWorkspace returns the original, unless one of its volumes lies inside the home.
// [Store.CheckMounted] then finds the volumes that lie inside the home because of a symbolic link.
func (s *Store) ForWorkspace(ctx context.Context, ref string) (Workspace, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	ref = cmp.Or(ref, s.opts.Image)
	d, err := s.declared(ctx, ref)
	if err != nil {
		return Workspace{}, err
	}
	found := Workspace{Reference: ref, Folders: d.folders, of: ref}
	if len(d.volumes) == 0 {
		return found, nil
	}
	id, err := s.withoutVolumes(ctx, d)
	switch {
	case err == nil:
		found.Reference = id
	case !engine.Answered(ctx, err) || errors.Is(err, backend.ErrLeaseLapsed):
		return Workspace{}, err
	case len(d.InHome) > 0:
		return Workspace{}, hides(ref, d.InHome, err)
	default:
		found.mounted, found.refused = d.volumes, err
	}
	return found, nil
}

// hides is the error for volumes inside the home if the engine refuses the image without them.
func hides(ref string, volumes []string, refused error) error {
	return fmt.Errorf("image %s declares the volume %s inside the home, which would hide files there and lose new ones, and the "+
		"engine refuses the image without it: build the image without that VOLUME: %w", ref, strings.Join(volumes, ", "), refused)
}

// CheckMounted fails if, because of a symbolic link, one of the image's volumes is mounted over the home or inside it.
// The container was created from the image and does not run. Only a container shows such a link.
func (s *Store) CheckMounted(ctx context.Context, containerID string, w Workspace) error {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	for _, volume := range w.mounted {
		at := "/"
		for name := range strings.SplitSeq(strings.TrimPrefix(volume, "/"), "/") {
			at = path.Join(at, name)
			stat, err := s.api.ContainerStatPath(ctx, containerID, at)
			switch {
			case err != nil && !errdefs.IsNotFound(err):
				return engine.Wrap("looking at the volume "+volume+" in a container", err)
			case err == nil && stat.LinkTarget != "":
				at = path.Clean(stat.LinkTarget) // the path without links
			}
		}
		if at != volume && (below(at+"/") || strings.HasPrefix(spec.HomePath, strings.TrimSuffix(at, "/")+"/")) {
			return hides(w.of, []string{volume}, w.refused)
		}
	}
	return nil
}

// Declared is what an image declares about its workspaces.
type Declared struct {
	// Ports are its TCP ports in ascending order.
	Ports []int
	// InHome are the paths of its volumes inside the home, cleaned and sorted.
	InHome []string
	// Home is the HOME of its environment, or "".
	Home string

	volumes, folders []string // all volumes; the folders of [Workspace]
	found            image.InspectResponse
	config           map[string]json.RawMessage // without the volumes
}

// Declared returns what the image declares, or a [backend.MissingImageError].
func (s *Store) Declared(ctx context.Context, ref string) (Declared, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	return s.declared(ctx, ref)
}

func (s *Store) declared(ctx context.Context, ref string) (Declared, error) {
	doing := "inspecting image " + ref
	var raw bytes.Buffer
	found, err := s.api.ImageInspect(ctx, ref, client.ImageInspectWithRawResponse(&raw))
	switch {
	case errdefs.IsNotFound(err):
		return Declared{}, &backend.MissingImageError{Image: ref}
	case engine.BadReference.Is(err): // only the user can repair the reference
		return Declared{}, workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("%s: %w", doing, err))
	case err != nil:
		return Declared{}, engine.Wrap(doing, err)
	}
	d := Declared{found: found}
	if found.Config == nil {
		return d, nil
	}
	// Keep the fields of the configuration that this version of the SDK does not know.
	var text struct{ Config map[string]json.RawMessage }
	if err := json.Unmarshal(raw.Bytes(), &text); err != nil {
		return Declared{}, fmt.Errorf("%s: %w", doing, err)
	}
	d.config = text.Config
	delete(d.config, "Volumes")
	for volume := range found.Config.Volumes {
		d.volumes = append(d.volumes, path.Clean("/"+volume))
	}
	slices.Sort(d.volumes)
	for _, env := range found.Config.Env {
		if home, ok := strings.CutPrefix(env, "HOME="); ok {
			d.Home = home
		}
	}
	for declared := range found.Config.ExposedPorts {
		// A range such as 3000-3005/tcp does not identify an application's port.
		if port := nat.Port(declared); port.Proto() == "tcp" && port.Int() > 0 {
			d.Ports = append(d.Ports, port.Int())
		}
	}
	slices.Sort(d.Ports)
	folders := map[string]bool{}
	for _, folder := range d.volumes {
		if below(folder) {
			d.InHome = append(d.InHome, folder)
			folders[folder] = true
		}
	}
	if folder := path.Clean("/" + found.Config.WorkingDir); below(folder) {
		folders[folder] = true
	}
	d.folders = slices.Sorted(maps.Keys(folders))
	return d, nil
}

// below reports whether a clean path lies inside the home.
func below(folder string) bool { return strings.HasPrefix(folder, spec.HomePath+"/") }

// withoutVolumes returns the id of the image without its volumes, and creates that image if necessary.
func (s *Store) withoutVolumes(ctx context.Context, d Declared) (id string, err error) {
	layers := d.found.RootFS.Layers
	labels := map[string]string{}
	maps.Copy(labels, d.found.Config.Labels)
	maps.Copy(labels, s.opts.HelperLabels(spec.KindImage))
	labels[spec.LabelSource] = d.found.ID
	if d.config["Labels"], err = json.Marshal(labels); err != nil {
		return "", fmt.Errorf("describing an image: %w", err)
	}
	description := map[string]any{
		"architecture": d.found.Architecture, "variant": d.found.Variant, "os": d.found.Os, "config": d.config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": layers},
	}
	if d.found.Created != "" {
		description["created"] = d.found.Created
	}
	config, err := json.Marshal(description)
	if err != nil {
		return "", fmt.Errorf("describing an image: %w", err)
	}
	sum := sha256.Sum256(config)
	id = "sha256:" + hex.EncodeToString(sum[:]) // the engine's form of an image id
	if !s.Missing(ctx, id) {
		return id, nil
	}
	s.removeAbandoned(ctx)
	content, err := onlyConfig(config, len(layers))
	if err != nil {
		return "", err
	}
	const doing = "loading an image without its volumes"
	loaded, err := s.api.ImageLoad(ctx, content, client.ImageLoadWithQuiet(true))
	if err != nil {
		return "", engine.Wrap(doing, err)
	}
	defer loaded.Body.Close()
	if err := read(loaded.Body, func(int64, int64) {}); err != nil {
		return "", engine.Wrap(doing, err)
	}
	if s.Missing(ctx, id) {
		return "", fmt.Errorf("%s: the engine has created another image", doing)
	}
	return id, nil
}

// removeAbandoned removes the images without volumes whose originals are gone and that no container uses. It runs
// before another such image is created, so that they do not pile up. Errors do no harm: the next call tries again.
func (s *Store) removeAbandoned(ctx context.Context) {
	args := filters.NewArgs()
	for k, v := range s.opts.HelperLabels(spec.KindImage) {
		args.Add("label", k+"="+v)
	}
	list, err := s.api.ImageList(ctx, image.ListOptions{Filters: args})
	if err != nil {
		return
	}
	for _, made := range list {
		if source := made.Labels[spec.LabelSource]; source != "" && s.Missing(ctx, source) {
			_, _ = s.api.ImageRemove(ctx, made.ID, image.RemoveOptions{}) // the engine refuses while a container uses it
		}
	}
}

// onlyConfig packs an image without its layers, which the engine has already.
func onlyConfig(config []byte, layers int) (io.Reader, error) {
	const name = "config.json"
	type manifest struct {
		Config   string
		RepoTags []string
		Layers   []string
	}
	m := manifest{Config: name}
	for i := range layers {
		m.Layers = append(m.Layers, strconv.Itoa(i)+"/layer.tar")
	}
	list, err := json.Marshal([]manifest{m})
	if err != nil {
		return nil, fmt.Errorf("describing an image: %w", err)
	}
	var packed bytes.Buffer
	w := tar.NewWriter(&packed)
	for _, f := range []struct {
		name    string
		content []byte
	}{{name, config}, {"manifest.json", list}} {
		err = errors.Join(err, w.WriteHeader(&tar.Header{Name: f.name, Mode: 0o644, Size: int64(len(f.content))}))
		_, failed := w.Write(f.content)
		err = errors.Join(err, failed)
	}
	return &packed, errors.Join(err, w.Close())
}
