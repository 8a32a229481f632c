// Package mount finds the mounts inside the home of a workspace that its Pod did not make: the volumes that its image
// declares (SPEC 7).
//
// It is pure: it takes the text of /proc/self/mountinfo and returns paths. A program in the workspace may have forged
// that text. So any text must be harmless to parse, and the result must not affect other workspaces.
package mount

import (
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// Command prints the kernel's list of mounts. It needs cat in the image, but no shell.
var Command = []string{"cat", "/proc/self/mountinfo"}

// MaxOutput bounds the output of Command, in bytes.
const MaxOutput = 1 << 20

// Found describes the mounts inside the home that are not the Pod's.
type Found struct {
	// Folders are their paths, sorted.
	Folders []string
	// Hiding are the sorted paths of the mounts at places where the Pod mounts something, too, or cannot mount anything.
	// The home itself may be one of them.
	Hiding []string
}

// maxDepth bounds how many mounts are followed upwards.
const maxDepth = 64

// entry is a line of mountinfo (proc_pid_mountinfo(5)).
type entry struct{ id, parent, device, root, at string }

// Inside returns the mounts strictly inside the home. own are the mounts that the Pod gives its container. If the text
// does not show the home, the result is empty.
func Inside(mountinfo []byte, own []corev1.VolumeMount) (found Found) {
	all := make(map[string]entry)
	var homes []entry
	for line := range strings.Lines(string(mountinfo)) {
		if e, ok := parse(line); ok {
			all[e.id] = e
			if e.at == spec.Home {
				homes = append(homes, e)
			}
		}
	}
	if len(homes) == 0 {
		return found
	}
	home := top(homes)
	if len(homes) > 1 && !isHome(home) && slices.ContainsFunc(homes, isHome) {
		return Found{Hiding: []string{spec.Home}}
	}
	at := make(map[string][]entry)
	for _, e := range all {
		if strings.HasPrefix(e.at, spec.Home+"/") && below(e, home, all) {
			at[e.at] = append(at[e.at], e)
		}
	}
	mounts := make(map[string]bool)
	for _, m := range own {
		mounts[path.Clean(m.MountPath)] = true
	}
	for _, place := range slices.Sorted(maps.Keys(at)) {
		here := at[place]
		switch e := top(here); {
		case e.device == home.device && e.root == path.Join(home.root, strings.TrimPrefix(place, spec.Home)):
			// This is the folder of the home that belongs there.
		case mounts[place] && len(here) == 1:
		case mounts[place] || !spec.IsFolder(place):
			found.Hiding = append(found.Hiding, place)
		default:
			found.Folders = append(found.Folders, place)
		}
	}
	return found.withoutMoved(at, mounts)
}

// withoutMoved omits mounts that may be the Pod's own: a user can move them to another place by a link in the home. It
// omits as many as are missing from their own places.
func (f Found) withoutMoved(at map[string][]entry, mounts map[string]bool) Found {
	moved := 0
	for place := range mounts {
		if strings.HasPrefix(place, spec.Home+"/") && len(at[place]) == 0 {
			moved++
		}
	}
	if moved >= len(f.Folders) {
		f.Folders = nil
	}
	return f
}

// parse parses a line.
func parse(line string) (e entry, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 5 {
		return e, false
	}
	return entry{fields[0], fields[1], fields[2], unescape(fields[3]), unescape(fields[4])}, true
}

// top returns the topmost of the mounts at one place.
func top(here []entry) entry {
	for _, e := range here {
		if !slices.ContainsFunc(here, func(over entry) bool { return over.parent == e.id }) {
			return e
		}
	}
	return here[0]
}

// isHome reports whether the mount is the home folder of a volume.
func isHome(e entry) bool { return path.Base(e.root) == spec.Folder }

// below reports whether the mount lies on the home, directly or on another mount. The home hides mounts that were made
// before it.
func below(e, home entry, all map[string]entry) bool {
	for range maxDepth {
		if e.parent == home.id {
			return true
		}
		parent, ok := all[e.parent]
		if !ok {
			return false
		}
		e = parent
	}
	return false
}

// unescape decodes the kernel's escapes of the form \ooo for space, tab, newline, backslash and number sign.
func unescape(text string) string {
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if i+3 < len(text) && text[i] == '\\' {
			n, ok := 0, true
			for _, c := range []byte(text[i+1 : i+4]) {
				ok = ok && c >= '0' && c <= '7'
				n = n<<3 | int(c-'0')
			}
			if ok && n < 256 {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(text[i])
	}
	return b.String()
}
