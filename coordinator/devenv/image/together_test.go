package image_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/image"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/devenv"
	images "github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/storagejob/contract"
)

// TestATagChangesWithTheContent: the common tag changes when the content of any of the images changes, and never
// otherwise.
func TestATagChangesWithTheContent(t *testing.T) {
	host, root := devenv.Docker(t), t.TempDir()
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	dockerfile := func(text string) {
		if err := os.WriteFile(filepath.Join(root, "Dockerfile"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var made []string
	t.Cleanup(func() {
		for _, ref := range made {
			_, _ = api.ImageRemove(context.Background(), ref, image.RemoveOptions{Force: true})
		}
	})
	build := func(first, second string) (tag string) {
		t.Helper()
		refs, err := images.BuildTogether(t.Context(), host, root, images.Made("codehub/first", first), images.Made("codehub/second", second))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, refs...)
		one, tag, _ := strings.Cut(refs[0], ":")
		if want := []string{"codehub/first:" + tag, "codehub/second:" + tag}; one != "codehub/first" || !slices.Equal(refs, want) {
			t.Fatalf("they are %q", refs)
		}
		if !strings.HasPrefix(tag, contract.Release+"-") {
			t.Errorf("the tag %q does not begin with the release", tag)
		}
		// They also have the release's tag, which refers to this build.
		for _, ref := range refs {
			name, _, _ := strings.Cut(ref, ":")
			made = append(made, name+":latest", name+":"+contract.Release)
			exact, err := api.ImageInspect(t.Context(), ref)
			if err != nil {
				t.Fatal(err)
			}
			if released, err := api.ImageInspect(t.Context(), name+":"+contract.Release); err != nil || released.ID != exact.ID {
				t.Errorf("%s of this release: %v, is another image than %s", name, err, ref)
			}
		}
		return tag
	}
	dockerfile("FROM scratch\nCOPY file /file\n")
	tag := build("a", "b")
	for range 3 { // of the files, which are in a map, the order must not count
		if again := build("a", "b"); again != tag {
			t.Errorf("the same images have the tags %s and %s", tag, again)
		}
	}
	others := []string{tag, build("a", "c"), build("c", "b"), build("b", "a")}
	dockerfile("FROM scratch\nCOPY file /file\nUSER 1\n")
	others = append(others, build("a", "b"))
	slices.Sort(others)
	if distinct := slices.Compact(slices.Clone(others)); len(distinct) != len(others) {
		t.Errorf("different images have the same tag: %q", others)
	}
}
