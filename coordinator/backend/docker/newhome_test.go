package docker_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/image"

	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/seed"
)

// built builds an image from the terminal's image and these instructions. The end of the test removes it.
func (r *real) built(instructions string) (id string) {
	r.Helper()
	files := packFiles(r.T, map[string][]byte{"Dockerfile": []byte("FROM " + r.image + "\n" + instructions)})
	resp, err := r.api.ImageBuild(r.Context(), bytes.NewReader(files), build.ImageBuildOptions{
		NetworkMode: "none", Remove: true, ForceRemove: true,
	})
	r.must(err)
	defer resp.Body.Close()
	r.Cleanup(func() {
		_, err := r.api.ImageRemove(context.Background(), id, image.RemoveOptions{})
		check(r, ignoreGone(err))
	})
	for dec := json.NewDecoder(bufio.NewReader(resp.Body)); ; {
		var line struct {
			Error string
			Aux   struct{ ID string }
		}
		err := dec.Decode(&line)
		if errors.Is(err, io.EOF) {
			return id
		}
		r.must(err)
		if line.Error != "" {
			r.Fatal(line.Error)
		}
		if line.Aux.ID != "" {
			id = line.Aux.ID
		}
	}
}

// TestNewHomeWithAFolderInIt: the engine creates the working folder of an image as root, and fills a new home with it.
// The home and the folder must nevertheless belong to the user. This holds even after the home was emptied, and after a
// start that could not examine the home.
func TestNewHomeWithAFolderInIt(t *testing.T) {
	t.Parallel()
	blind := false
	r := newReal(t, func(o *docker.Options) {
		o.Transport = func(next http.RoundTripper) http.RoundTripper {
			return roundTrip(func(req *http.Request) (*http.Response, error) {
				if blind && req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/archive") {
					return &http.Response{StatusCode: http.StatusForbidden, Request: req, Body: http.NoBody}, nil
				}
				return next.RoundTrip(req)
			})
		}
	})
	const homeless, work = "USER 0\nRUN rm -rf /home/coder\nUSER 1000:1000\n", "WORKDIR /home/coder/project\n"
	cases := map[string]struct {
		instructions, folders string
		blind                 bool
	}{
		"no home":          {instructions: homeless + work, folders: "project"},
		"its own home":     {instructions: work, folders: "project"},
		"deep":             {instructions: homeless + "WORKDIR /home/coder/a/b/c\n", folders: "a a/b a/b/c"},
		"a volume, too":    {instructions: homeless + "VOLUME /home/coder/data/deep\n" + work, folders: "project data data/deep"},
		"root's home":      {instructions: "USER 0\nRUN rm -rf /home/coder && mkdir /home/coder\nUSER 1000:1000\n" + work, folders: "project"},
		"files in it":      {instructions: "USER 0\nRUN touch /home/coder/.profile\nUSER 1000:1000\n" + work, folders: "project"},
		"another user":     {instructions: homeless + "USER 1234:4321\n" + work, folders: "project"},
		"not looked at":    {instructions: homeless + work, folders: "project", blind: true},
		"a volume, unseen": {instructions: homeless + "VOLUME /home/coder/data/deep\n", folders: "data data/deep", blind: true},
	}
	for _, name := range seed.Third(t, slices.Sorted(maps.Keys(cases))) {
		c := cases[name]
		t.Run(name, func(t *testing.T) {
			r := &real{t, r.api, r.backend, r.image}
			ref := r.built(c.instructions)
			blind = c.blind
			id := r.start(ref)
			if c.blind {
				blind = false
				r.again(id, ref)
			}
			for range 3 {
				r.sh(id, "cd /home/coder; for f in . "+c.folders+"; do touch $f/made; done")
				r.again(id, ref)
				r.sh(id, "cd /home/coder; rm -rf * .profile") // the engine fills it again
				r.again(id, ref)
			}
		})
	}
}

// TestFoldersThatStayRoots: a folder that belongs to root still does after a start if it contains anything, if the
// image does not expect it, or if it is reached through a link.
func TestFoldersThatStayRoots(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	id := r.start(r.variant(container.Config{User: "0:0"}, nil))
	r.sh(id, "cd /home/coder; mkdir -p full empty other; touch full/file; ln -s /spot link; ln -s / deep")
	r.again(id, r.built("USER 0\nRUN mkdir /spot\nUSER 1000:1000\nVOLUME /home/coder/full /home/coder/link /home/coder/deep/spot\nWORKDIR /home/coder/empty\n"))
	if got := r.sh(id, "cd /home/coder; stat -c %n:%u full empty other /spot | tr '\\n' ' '"); got != "full:0 empty:1000 other:0 /spot:0" {
		t.Error(got)
	}
}
