package home

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The home of a container belongs to its image's user. The engine ensures this only if the image has a folder at
// spec.HomePath. In that case, when a container is created, the engine fills an empty volume with that folder's content
// and gives it the folder's owner. Otherwise the home would belong to root or, after a change of the image, to the
// previous image's user.
//
// The engine can return a container's files as an archive and unpack an archive into a container, even if the container
// does not run yet. So the owner can be changed without another container and without rights in the workspace's
// container.

const (
	// maxAccounts bounds how much of an image's list of users or groups is read, in bytes.
	maxAccounts = 1 << 20
	// maxRest bounds how much of a home is read for the sole purpose of keeping the connection open.
	maxRest = 64 << 10
)

// folder is the home, or a folder in it, as a container sees it.
type folder struct {
	uid, gid int
	mode     int64
	// empty means that it holds nothing but what the engine creates: see expected.
	empty bool
}

// identity is the user and the group of a container's program.
type identity struct{ uid, gid int }

// Own gives an empty home to the user of the container, which was created and does not run. It never changes a home
// with files, because it cannot know their owner. It then does the same for the folders that the image expects below
// the home, because the engine or its runtime creates a missing working folder as root, in any home. Own leaves
// everything else there as it is, and creates nothing below a path that is no folder.
//
// The engine treats an empty home in the same way for every container of the same image. So if nothing needed a change,
// this process does not look again. An image that expects folders is an exception: if the home is emptied, the engine
// creates these folders again, and the home then belongs to root.
//
// A failure does no harm: the container starts on the home as it is, the next start tries again, and doctor names the
// homes that cannot be written to. After a failure Own creates nothing more in the home, so that it is still empty at
// the next start.
func (h *Volumes) Own(ctx context.Context, id workspace.ID, containerID, image, incarnation string, folders []string) {
	key := image + " " + incarnation
	if known, _ := h.owned.Get(id, id.VolumeName()); known == key && len(folders) == 0 {
		return
	}
	expected := expected(folders)
	home, err := h.folder(ctx, containerID, spec.HomePath, expected)
	if err != nil {
		return
	}
	var who identity
	if home.empty || len(expected) > 0 {
		user, err := h.userOf(ctx, containerID)
		if err != nil {
			return
		}
		if who, err = identityOf(user, h.accounts(ctx, containerID)); err != nil {
			return
		}
	}
	if home.empty && (home.uid != who.uid || home.gid != who.gid || home.mode&usable != usable) {
		key = "" // the next start tries again
		if h.putFolder(ctx, containerID, spec.HomePath, who, home.mode|usable) != nil {
			return
		}
	}
	h.ownFolders(ctx, containerID, who, expected)
	h.owned.Put(id, id.VolumeName(), key)
}

// newFolder is the mode of a new folder.
const newFolder = 0o755

// ownFolders creates the missing expected folders, and gives the user those that belong to root and are empty.
func (h *Volumes) ownFolders(ctx context.Context, containerID string, who identity, expected []string) {
	closed := make(map[string]bool) // nothing is changed below these
	for _, at := range expected {
		if closed[path.Dir(at)] {
			closed[at] = true
			continue
		}
		found, err := h.folder(ctx, containerID, at, expected)
		switch {
		case errdefs.IsNotFound(err):
			closed[at] = h.putFolder(ctx, containerID, at, who, newFolder) != nil
		case err != nil:
			closed[at] = true
		case found.empty && found.uid == 0 && found.gid == 0 && who != (identity{}):
			closed[at] = h.putFolder(ctx, containerID, at, who, found.mode|usable) != nil
		}
	}
}

// expected returns the folders and their parents below the home, the outer ones first.
func expected(folders []string) []string {
	all := make(map[string]bool)
	for _, folder := range folders {
		for ; folder != spec.HomePath; folder = path.Dir(folder) {
			all[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// usable contains the rights that an owner needs to use a folder.
const usable = 0o700

// writable reports whether the user can create files in the home.
func (f folder) writable(who identity) bool {
	const rights = 3 // write and search
	switch {
	case f.uid == who.uid:
		return f.mode>>6&rights == rights
	case f.gid == who.gid:
		return f.mode>>3&rights == rights
	}
	return f.mode&rights == rights
}

// Access is whether a container's program can use its home.
type Access struct {
	// User is the user of the program, and Owner is the owner of the home. Each consists of the numbers of a user and a
	// group.
	User, Owner string
	// Writable is also true if the user is unknown.
	Writable bool
}

// Access examines the home in a container whose program runs as that user.
func (h *Volumes) Access(ctx context.Context, containerID, user string) (Access, error) {
	home, err := h.folder(ctx, containerID, spec.HomePath, nil)
	if err != nil {
		return Access{}, err
	}
	who, err := identityOf(user, h.accounts(ctx, containerID))
	return Access{
		User: fmt.Sprintf("%d:%d", who.uid, who.gid), Owner: fmt.Sprintf("%d:%d", home.uid, home.gid),
		Writable: err != nil || home.writable(who),
	}, nil
}

// userOf returns the container's user as its image names it.
func (h *Volumes) userOf(ctx context.Context, containerID string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	c, err := h.api.ContainerInspect(ctx, containerID)
	if err != nil {
		return "", engine.Wrap("inspecting container "+containerID, err)
	}
	return c.Config.User, nil
}

// folder examines the home or a folder in it. However large the folder is, only the folder itself and some names in it
// are read: it stops at the first name that is not one of root's expected folders.
func (h *Volumes) folder(ctx context.Context, containerID, at string, expected []string) (folder, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	doing := "looking at " + at + " in a container"
	content, _, err := h.api.CopyFromContainer(ctx, containerID, at)
	if err != nil {
		return folder{}, engine.Wrap(doing, err)
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, content, maxRest) // so that the connection can be reused
		content.Close()
	}()
	files := tar.NewReader(content)
	first, err := files.Next()
	if err != nil {
		return folder{}, engine.Wrap(doing, err)
	}
	if first.Typeflag != tar.TypeDir {
		return folder{}, fmt.Errorf("%s: it is no folder", doing)
	}
	found := folder{uid: first.Uid, gid: first.Gid, mode: first.Mode & 0o7777}
	for {
		next, err := files.Next()
		switch {
		case errors.Is(err, io.EOF):
			found.empty = true
			return found, nil
		case err != nil:
			return folder{}, engine.Wrap(doing, err)
		case next.Typeflag != tar.TypeDir || next.Uid != 0 || next.Gid != 0 || !slices.Contains(expected, path.Join(path.Dir(at), next.Name)):
			return found, nil
		}
	}
}

// putFolder creates a folder of a user. If it exists, the engine changes its owner and mode.
func (h *Volumes) putFolder(ctx context.Context, containerID, folder string, who identity, mode int64) error {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	var content bytes.Buffer
	w := tar.NewWriter(&content)
	err := w.WriteHeader(&tar.Header{
		Name: path.Base(folder) + "/", Typeflag: tar.TypeDir, Mode: mode, Uid: who.uid, Gid: who.gid,
	})
	if err := errors.Join(err, w.Close()); err != nil {
		return fmt.Errorf("describing the folder %s: %w", folder, err)
	}
	err = h.api.CopyToContainer(ctx, containerID, path.Dir(folder), &content, container.CopyToContainerOptions{})
	return engine.Wrap(fmt.Sprintf("giving the folder %s to user %d", folder, who.uid), err)
}

// identityOf resolves the user of an image as the engine does: a number or a name, with or without a group. It looks
// names up in the image's own lists, which accounts returns.
func identityOf(user string, accounts func(file string) ([][]string, error)) (identity, error) {
	var who identity
	name, group, _ := strings.Cut(user, ":")
	uid, numeric := number(name)
	if numeric {
		who.uid = uid
	}
	if name != "" && !(numeric && group != "") {
		users, err := accounts("/etc/passwd")
		if err != nil {
			return who, err
		}
		found, ok := find(users, name, 4) // name:password:uid:gid:…
		switch {
		case ok:
			who = identity{found[2], found[3]}
		case !numeric:
			return who, fmt.Errorf("the image's user %q is not in its /etc/passwd", name)
		}
	}
	if group == "" {
		return who, nil
	}
	gid, numeric := number(group)
	if !numeric {
		groups, err := accounts("/etc/group")
		if err != nil {
			return who, err
		}
		found, ok := find(groups, group, 3) // name:password:gid:…
		if !ok {
			return who, fmt.Errorf("the image's group %q is not in its /etc/group", group)
		}
		gid = found[2]
	}
	who.gid = gid
	return who, nil
}

// find looks for the line with that name or number, and returns the numbers in its first fields.
func find(lines [][]string, name string, fields int) ([]int, bool) {
	for _, line := range lines {
		if len(line) < fields || line[0] != name && line[2] != name {
			continue
		}
		ids := make([]int, fields)
		ok := true
		for i := 2; i < fields && ok; i++ {
			ids[i], ok = number(line[i])
		}
		if ok {
			return ids, true
		}
	}
	return nil, false
}

// number parses an id. It rejects numbers above the kernel's largest id.
func number(text string) (int, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int(n), err == nil && n >= 0
}

// accounts returns a function that reads a list of users or groups in a container: the fields of each line. A list that
// is missing, or no plain file, is empty.
func (h *Volumes) accounts(ctx context.Context, containerID string) func(file string) ([][]string, error) {
	return func(file string) ([][]string, error) {
		ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
		defer cancel()
		content, _, err := h.api.CopyFromContainer(ctx, containerID, file)
		if errdefs.IsNotFound(err) {
			return nil, nil
		}
		doing := "reading " + file + " of the image"
		if err != nil {
			return nil, engine.Wrap(doing, err)
		}
		defer content.Close()
		files := tar.NewReader(content)
		if _, err := files.Next(); err != nil {
			return nil, engine.Wrap(doing, err)
		}
		var all [][]string
		lines := bufio.NewScanner(io.LimitReader(files, maxAccounts))
		for lines.Scan() {
			all = append(all, strings.Split(lines.Text(), ":"))
		}
		return all, engine.Wrap(doing, lines.Err())
	}
}
