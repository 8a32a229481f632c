package spec_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// claimOf is the claim of a home with that annotation.
func claimOf(note string) *corev1.PersistentVolumeClaim {
	c := &corev1.PersistentVolumeClaim{}
	c.Annotations = map[string]string{spec.AnnotationFolders: note}
	return c
}

// TestFoldersOf: a program in the workspace determines the annotation of a claim. Therefore only folders of the home
// count, and only for the image that the annotation names.
func TestFoldersOf(t *testing.T) {
	var many []string
	for _, c := range "abcdefghijklmnop" {
		many = append(many, "/home/coder/"+string(c))
	}
	for name, c := range map[string]struct {
		note string
		want []string
	}{
		"none":            {"", nil},
		"no JSON":         {"/home/coder/a", nil},
		"another image":   {spec.Folders{Image: "other:1", Paths: []string{"/home/coder/a"}}.String(), nil},
		"two":             {spec.Folders{Image: "code:1", Paths: []string{"/home/coder/a", "/home/coder/b c/d"}}.String(), []string{"/home/coder/a", "/home/coder/b c/d"}},
		"what is no such": {spec.Folders{Image: "code:1", Paths: []string{"/home/coder", "/home/coder/", "/home/coder/../x", "/etc", "a", "", "/home/coder/a:b", "/home/coder/a\n", "/home/coder/" + strings.Repeat("x", 600), "/home/coder//a"}}.String(), nil},
		"too many":        {spec.Folders{Image: "code:1", Paths: many}.String(), many[:spec.MaxFolders]},
	} {
		if got := spec.FoldersOf(claimOf(c.note), "code:1"); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestMountFolders: the folders are mounted beside the other mounts, and nothing is mounted twice. The hash stays.
func TestMountFolders(t *testing.T) {
	o := plain()
	o.PodTemplate = `{spec: {initContainers: [{name: first, image: x, securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}}], containers: [{name: workspace, volumeMounts: [{mountPath: /home/coder/project/, name: home, subPath: home/project}]}]}}`
	p := pod(t, o, start())
	before := p.DeepCopy()
	spec.MountFolders(p, nil)
	spec.MountFolders(p, []string{"/home/coder/project"})
	if a, b := asJSON(t, p), asJSON(t, before); a != b {
		t.Errorf("with nothing to add it is\n%s\nand was\n%s", a, b)
	}
	spec.MountFolders(p, []string{"/home/coder/project", "/home/coder/a b/$(HOME)"})
	if m, _ := mountAt(t, p, "/home/coder/a b/$(HOME)"); m.Name != "home" || m.SubPath != "home/a b/$(HOME)" || m.ReadOnly {
		t.Errorf("%+v", m)
	}
	if n, was := len(p.Spec.Containers[0].VolumeMounts), len(before.Spec.Containers[0].VolumeMounts); n != was+1 {
		t.Errorf("%d mounts in place of %d", n, was)
	}
	if len(p.Spec.InitContainers) != 2 || p.Spec.InitContainers[0].Name != "first" {
		t.Fatalf("%+v", p.Spec.InitContainers)
	}
	c := p.Spec.InitContainers[1]
	if c.Image != "notebook:1" || len(c.Command) != 5 || c.Command[4] != "./a b/$$(HOME)" || len(c.Env) != 0 {
		t.Errorf("%+v", c)
	}
	if p.Annotations[spec.AnnotationSpec] != before.Annotations[spec.AnnotationSpec] {
		t.Error("another hash")
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestTheFoldersAreMade runs the script on this machine, with the shells of common images, as a user other than root.
func TestTheFoldersAreMade(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make folders for another user")
	}
	const user = 1000
	for _, shell := range [][]string{{"sh"}, {"busybox", "sh"}} {
		t.Run(strings.Join(shell, " "), func(t *testing.T) {
			home := t.TempDir()
			for dir := home; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
				must(t, os.Chmod(dir, 0o755))
			}
			must(t, os.Chown(home, 0, user))
			must(t, os.Chmod(home, 0o2775))
			make := func(name string, owner int) {
				must(t, os.MkdirAll(filepath.Join(home, name), 0o755))
				must(t, os.Chown(filepath.Join(home, name), owner, user))
			}
			// A runtime created these, and the last one holds a file.
			make("empty", 0)
			make("deep/in/it", 0)
			make("full", 0)
			must(t, os.WriteFile(filepath.Join(home, "full/file"), nil, 0o600))
			// These are the user's.
			make("mine", user)
			must(t, os.Chmod(filepath.Join(home, "mine"), 0o500))
			must(t, os.Symlink("mine", filepath.Join(home, "link")))
			must(t, os.Symlink("/etc", filepath.Join(home, "out")))
			must(t, os.WriteFile(filepath.Join(home, "text"), []byte("text"), 0o600))

			p := pod(t, plain(), start())
			folders := []string{"empty", "deep/in/it", "full", "mine", "link", "text", "new folder/-n", "*", "out/x", "-rf"}
			var paths []string
			for _, f := range folders {
				paths = append(paths, "/home/coder/"+f)
			}
			spec.MountFolders(p, paths)
			command := p.Spec.InitContainers[0].Command
			for i, arg := range command {
				command[i] = strings.ReplaceAll(arg, "$$", "$") // as the kubelet does
			}
			for range 2 { // each start runs it
				cmd := exec.Command(shell[0], append(shell[1:], command[1:]...)...)
				cmd.Dir = home
				cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user, Gid: user}}
				if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
					t.Fatalf("%v: %s", err, out)
				}
			}
			for name, owner := range map[string]uint32{
				"empty": user, "deep/in/it": user, "deep": user, "deep.root-1/in/it": 0, "full": 0, "mine": user, "new folder/-n": user, "*": user, "-rf": user,
			} {
				info, err := os.Stat(filepath.Join(home, name))
				must(t, err)
				if got := info.Sys().(*syscall.Stat_t).Uid; !info.IsDir() || got != owner {
					t.Errorf("%s: %v of %d, want a folder of %d", name, info.Mode(), got, owner)
				}
			}
			if target, err := os.Readlink(filepath.Join(home, "link")); target != "mine" {
				t.Errorf("the link leads to %q: %v", target, err)
			}
			if text, err := os.ReadFile(filepath.Join(home, "text")); string(text) != "text" {
				t.Errorf("the file holds %q: %v", text, err)
			}
			all, err := os.ReadDir(home)
			must(t, err)
			if len(all) != 11 {
				t.Errorf("the home has %v", all)
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
