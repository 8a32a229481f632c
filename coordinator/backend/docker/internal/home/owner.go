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

// The home of a container belongs to the user that its image runs as. The engine sees to that only
// where the image has a folder at spec.HomePath. Then a container's creation fills an empty volume
// with what is there, owner included. Elsewhere the home would be root's, and after a change of the
// image that of the former image's user.
//
// What a container that does not run yet has at a path, and what it gets there, goes through
// the engine's archive of its files. So this needs neither a container of its own nor a right
// in the workspace's.

const (
	// maxAccounts bounds what is read of an image's list of users or groups, in bytes.
	maxAccounts = 1 << 20
	// maxRest is how much of a home is read to no purpose.
	maxRest = 64 << 10
)

// folder is the home, or a folder in it, as a container sees it.
type folder struct {
	uid, gid int
	mode     int64
	// empty says that there is nothing in it but what the engine makes: see expected.
	empty bool
}

// identity is the user and the group that a container's program runs as.
type identity struct{ uid, gid int }

// Own gives an empty home to the user of the container, which was created and does not
// run. A home with files in it is never changed: their owner is not known. Then it does the same for the folders that the image expects
// below the home. The engine, or what starts the program, makes a working folder for root: in a new home, and in one without it.
// What else is there stays as it is, and nothing is made below what is no folder.
//
// The engine makes the same of an empty home with every container from the same image. So this process does not look
// again at what needed no change, unless there are such folders: they make a home that was emptied root's again.
//
// It is a help: if it fails, the container starts on the home as it is, the next start looks again, and doctor tells
// which homes cannot be written to. Nothing more is then done to the home: it would not be empty at the next start.
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
		key = "" // the next start looks again
		if h.putFolder(ctx, containerID, spec.HomePath, who, home.mode|usable) != nil {
			return
		}
	}
	h.ownFolders(ctx, containerID, who, expected)
	h.owned.Put(id, id.VolumeName(), key)
}

// newFolder is the mode of a folder that is made.
const newFolder = 0o755

// ownFolders makes the expected folders that do not exist, and gives away those of root's in which there is nothing else.
func (h *Volumes) ownFolders(ctx context.Context, containerID string, who identity, expected []string) {
	closed := make(map[string]bool) // nothing is done below them
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

// expected returns the folders, which lie below the home, and their parents there, the outer ones first.
func expected(folders []string) []string {
	all := make(map[string]bool)
	for _, folder := range folders {
		for ; folder != spec.HomePath; folder = path.Dir(folder) {
			all[folder] = true
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// usable are the rights without which its owner cannot use a folder.
const usable = 0o700

// writable reports whether a user can make files in the home.
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

// Access is whether the program in a container can use its home.
type Access struct {
	// User is who the program runs as, Owner whose the home is: the numbers of user and group.
	User, Owner string
	// Writable is true also if the user is not known.
	Writable bool
}

// Access looks at the home in a container whose program runs as that user.
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

// userOf returns the user of a container, as its image names it.
func (h *Volumes) userOf(ctx context.Context, containerID string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	c, err := h.api.ContainerInspect(ctx, containerID)
	if err != nil {
		return "", engine.Wrap("inspecting container "+containerID, err)
	}
	return c.Config.User, nil
}

// folder looks at the home or a folder in it. It reads the folder and the first name in it that is none of the expected folders of root's,
// however much there is.
func (h *Volumes) folder(ctx context.Context, containerID, at string, expected []string) (folder, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	doing := "looking at " + at + " in a container"
	content, _, err := h.api.CopyFromContainer(ctx, containerID, at)
	if err != nil {
		return folder{}, engine.Wrap(doing, err)
	}
	defer func() {
		_, _ = io.CopyN(io.Discard, content, maxRest) // the connection is used again if that was all
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

// putFolder makes a folder of a user's. The engine writes one that exists by changing its owner and mode.
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

// identityOf resolves the user of an image as the engine does: a number or a name, with or without
// a group. Names are resolved by the image's own lists, which accounts returns.
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

// find returns the numbers among the first fields of the line with that name or number.
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

// number reads an id. What is larger than the kernel's is none.
func number(text string) (int, bool) {
	n, err := strconv.ParseInt(text, 10, 32)
	return int(n), err == nil && n >= 0
}

// accounts reads lists of users or groups in a container: the fields of each line. One
// that the image does not have, or that is no plain file, is empty.
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
