package mount_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/internal/mount"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// These are mounts of a container, in the kernel's form: those that every container has, and additional ones.
const (
	rootfs = `700 600 0:90 / / ro,relatime - overlay overlay rw,lowerdir=/a:/b,upperdir=/c,workdir=/d
701 700 0:91 / /proc rw,nosuid - proc proc rw
702 700 0:92 / /dev rw,nosuid - tmpfs tmpfs rw,size=65536k,mode=755
703 702 0:93 / /dev/shm rw,relatime - tmpfs tmpfs rw
`
	home   = "710 700 8:1 /volumes/ws-home/home /home/coder rw,relatime - ext4 /dev/sda1 rw\n"
	volume = "720 710 8:1 /containerd/containers/abc/volumes/def /home/coder/project rw,relatime - ext4 /dev/sda1 rw\n"
)

// in returns the line of a mount on the home.
func in(id, parent int, root, at string) string {
	return fmt.Sprintf("%d %d 8:1 %s %s rw,relatime - ext4 /dev/sda1 rw\n", id, parent, root, at)
}

func TestInside(t *testing.T) {
	homeMount := corev1.VolumeMount{Name: "home", MountPath: "/home/coder", SubPath: "home"}
	folder := corev1.VolumeMount{Name: "home", MountPath: "/home/coder/project", SubPath: "home/project"}
	cache := corev1.VolumeMount{Name: "cache", MountPath: "/home/coder/.cache/"}
	own := "720 710 8:1 /volumes/ws-home/home/project /home/coder/project rw - ext4 /dev/sda1 rw\n"
	gvisor := strings.NewReplacer("8:1 /volumes/ws-home/home ", "0:30 / ")
	for name, c := range map[string]struct {
		text string
		own  []corev1.VolumeMount
		want mount.Found
	}{
		"nothing":                               {rootfs + home, nil, mount.Found{}},
		"a volume":                              {rootfs + home + volume, nil, mount.Found{Folders: []string{"/home/coder/project"}}},
		"a volume where roots are not shown":    {gvisor.Replace(rootfs + home + strings.Replace(volume, "8:1 /containerd/containers/abc/volumes/def", "0:31 /", 1)), nil, mount.Found{Folders: []string{"/home/coder/project"}}},
		"in any order":                          {volume + home + rootfs, nil, mount.Found{Folders: []string{"/home/coder/project"}}},
		"several, and one in another":           {rootfs + home + volume + in(721, 720, "/v", "/home/coder/project/deep") + in(722, 710, "/w", "/home/coder/a"), nil, mount.Found{Folders: []string{"/home/coder/a", "/home/coder/project", "/home/coder/project/deep"}}},
		"a name with a space":                   {rootfs + home + in(720, 710, "/v", `/home/coder/my\040project\011x`), nil, mount.Found{Hiding: []string{"/home/coder/my project\tx"}}},
		"a name with a space alone":             {rootfs + home + in(720, 710, "/v", `/home/coder/my\040project`), nil, mount.Found{Folders: []string{"/home/coder/my project"}}},
		"a backslash":                           {rootfs + home + in(720, 710, "/v", `/home/coder/a\134040b`), nil, mount.Found{Folders: []string{`/home/coder/a\040b`}}},
		"what cannot be mounted":                {rootfs + home + in(720, 710, "/v", "/home/coder/a:b"), nil, mount.Found{Hiding: []string{"/home/coder/a:b"}}},
		"beside the home":                       {rootfs + home + in(720, 700, "/v", "/home/coder2/x") + in(721, 700, "/v", "/data") + in(722, 700, "/v", "/home"), nil, mount.Found{}},
		"hidden by the home":                    {rootfs + in(705, 700, "/v", "/home/coder/work") + home, nil, mount.Found{}},
		"our folder":                            {rootfs + home + own, []corev1.VolumeMount{folder}, mount.Found{}},
		"our folder, where roots are not shown": {gvisor.Replace(rootfs+home) + "720 710 0:40 / /home/coder/project rw - 9p none rw\n", []corev1.VolumeMount{folder}, mount.Found{}},
		"our folder through a link":             {rootfs + home + in(720, 710, "/volumes/ws-home/home/other", "/home/coder/other"), []corev1.VolumeMount{folder}, mount.Found{}},
		"a volume over our folder":              {rootfs + home + own + in(721, 720, "/v", "/home/coder/project"), []corev1.VolumeMount{folder}, mount.Found{Hiding: []string{"/home/coder/project"}}},
		"a volume under our folder":             {rootfs + home + in(719, 710, "/v", "/home/coder/project") + strings.Replace(own, "710", "719", 1), []corev1.VolumeMount{folder}, mount.Found{}},
		"a template's mount":                    {rootfs + home + in(720, 710, "/pods/x/cache", "/home/coder/.cache"), []corev1.VolumeMount{cache}, mount.Found{}},
		"a volume in a template's mount":        {rootfs + home + in(720, 710, "/pods/x/cache", "/home/coder/.cache") + in(721, 720, "/v", "/home/coder/.cache/pip"), []corev1.VolumeMount{cache}, mount.Found{Folders: []string{"/home/coder/.cache/pip"}}},
		"a volume over a template's mount":      {rootfs + home + in(720, 710, "/pods/x/cache", "/home/coder/.cache") + in(721, 720, "/v", "/home/coder/.cache"), []corev1.VolumeMount{cache}, mount.Found{Hiding: []string{"/home/coder/.cache"}}},
		"a template's mount through a link":     {rootfs + home + in(720, 710, "/pods/x/cache", "/home/coder/elsewhere"), []corev1.VolumeMount{cache}, mount.Found{}},
		"a volume over the home":                {rootfs + home + in(711, 710, "/v", "/home/coder"), nil, mount.Found{Hiding: []string{"/home/coder"}}},
		"a volume under the home":               {rootfs + in(709, 700, "/v", "/home/coder") + strings.Replace(home, "700", "709", 1), nil, mount.Found{}},
		"without the home":                      {rootfs + volume, nil, mount.Found{}},
		"empty":                                 {"", nil, mount.Found{}},
		"another text":                          {"cat: not found\n\x00\xff /home/coder\n1 2 3 4\n", nil, mount.Found{}},
		"mounts in a circle":                    {rootfs + home + in(720, 721, "/v", "/home/coder/a") + in(721, 720, "/v", "/home/coder/a"), nil, mount.Found{}},
		"a way out":                             {rootfs + home + in(720, 710, "/v", "/home/coder/../../etc") + in(721, 710, "/v", "/home/coder/") + in(722, 710, "/v", `/home/coder/\377`), nil, mount.Found{Hiding: []string{"/home/coder/", "/home/coder/../../etc", "/home/coder/\xff"}}},
	} {
		if got := mount.Inside([]byte(c.text), append([]corev1.VolumeMount{homeMount}, c.own...)); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// FuzzInside: regardless of what a program prints, no folder outside the home is mounted.
func FuzzInside(f *testing.F) {
	f.Add(rootfs + home + volume)
	f.Add(home + in(720, 710, `/\040\9`, `/home/coder/\134\13`))
	f.Fuzz(func(t *testing.T, text string) {
		for _, folder := range mount.Inside([]byte(text), nil).Folders {
			if !spec.IsFolder(folder) {
				t.Errorf("%q", folder)
			}
		}
	})
}
