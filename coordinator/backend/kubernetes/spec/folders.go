package spec

import (
	"encoding/json"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
)

// Folders are the folders of a home at which an image declares volumes. A runtime mounts an empty volume at each of
// them, unless the Pod mounts something there: see [MountFolders].
type Folders struct {
	// Image is the reference, as in the Pods.
	Image string `json:"image"`
	// Paths are their paths in the container, below [Home].
	Paths []string `json:"paths"`
}

// MaxFolders is how many folders of a home are mounted at their own places at most. maxFolder bounds the path of each,
// in bytes. The paths come from programs in the workspace.
const (
	MaxFolders = 10
	maxFolder  = 512
)

// foldersContainer is the name of the container that creates the folders.
const foldersContainer = "codehub-folders"

// foldersScript creates the folders named by its arguments, below the folder in which it runs. They belong to the user
// that runs it. Before the program knew the folders, the runtime created them as root, together with their parents. The
// script removes such a folder if it is empty, and moves it aside if it contains only folders. It needs sh, mkdir,
// rmdir, find and mv.
const foldersScript = `for folder do
	at= rest=$folder/
	while [ -n "$rest" ]; do
		at=$at${at:+/}${rest%%/*} rest=${rest#*/}
		[ -d "$at" ] && [ ! -L "$at" ] && [ ! -w "$at" ] && [ ! -O "$at" ] || continue
		rmdir "$at" && break
		[ -z "$(find "$at" ! -type d)" ] || continue
		n=1; while [ -e "$at.root-$n" ]; do n=$((n + 1)); done
		mv "$at" "$at.root-$n"
		break
	done
	mkdir -p "$folder"
done 2>/dev/null
exit 0`

// IsFolder reports whether a folder of the home can be mounted at that place.
func IsFolder(at string) bool {
	return strings.HasPrefix(at, Home+"/") && path.Clean(at) == at && len(at) <= maxFolder && utf8.ValidString(at) &&
		!strings.ContainsFunc(at, func(r rune) bool { return r == ':' || !unicode.IsGraphic(r) })
}

// FoldersOf returns the folders that the claim of a home records for that image.
func FoldersOf(c *corev1.PersistentVolumeClaim, image string) []string {
	var f Folders
	if json.Unmarshal([]byte(c.Annotations[AnnotationFolders]), &f) != nil || f.Image != image {
		return nil
	}
	f.Paths = slices.DeleteFunc(f.Paths, func(at string) bool { return !IsFolder(at) })
	return f.Paths[:min(len(f.Paths), MaxFolders)]
}

// String returns the value of [AnnotationFolders].
func (f Folders) String() string {
	text, err := json.Marshal(f)
	if err != nil {
		panic(err) // cannot happen: it is plain data
	}
	return string(text)
}

// MountsOf returns the mounts of the workspace's container.
func MountsOf(p *corev1.Pod) []corev1.VolumeMount {
	if c := workspaceContainer(p); c != nil {
		return c.VolumeMounts
	}
	return nil
}

// MountFolders mounts those folders of the home at their own places in a workspace's Pod. Then no runtime mounts one of
// the image's declared volumes there, and files written there are stored in the home. An init container creates the
// folders as the workspace's user, because the kubelet would create them as root.
func MountFolders(p *corev1.Pod, paths []string) {
	c := workspaceContainer(p)
	var folders []string
	for _, at := range paths {
		if slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return path.Clean(m.MountPath) == at }) {
			continue
		}
		folder := strings.TrimPrefix(at, Home+"/")
		folders = append(folders, "./"+folder) // it may begin with a hyphen
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{
			Name: volumeHome, MountPath: at, SubPath: path.Join(Folder, folder),
		})
	}
	if len(folders) == 0 {
		return
	}
	p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{
		Name: foldersContainer, Image: c.Image, ImagePullPolicy: c.ImagePullPolicy, WorkingDir: Data,
		Command:                  escaped(append([]string{"sh", "-c", foldersScript, "sh"}, folders...)),
		Resources:                *c.Resources.DeepCopy(),
		SecurityContext:          c.SecurityContext.DeepCopy(),
		TerminationMessagePolicy: c.TerminationMessagePolicy,
		// That container does not mount the volume at [Home], because below that path the runtime mounts the image's
		// declared volumes.
		VolumeMounts: []corev1.VolumeMount{{Name: volumeHome, MountPath: Data, SubPath: Folder}},
	})
}
