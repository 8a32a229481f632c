package settings

import (
	"reflect"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/coordinator/launch"
)

func TestImages(t *testing.T) {
	t.Setenv("TEST_JUPYTER", "test/jupyter:7")
	a := required()
	a.Images = []Image{
		{Name: "code", Reference: "test/code:1", Title: "Code", Description: "an editor", Icon: "code", Git: true},
		{Name: "jupyter", Reference: "{env.TEST_JUPYTER}", Port: "8888", KeepPrefix: true, Command: []string{"a", "$(B)"}},
	}
	want := launch.Catalog{
		{Name: "code", Reference: "test/code:1", Title: "Code", Description: "an editor", Icon: "code", Git: true},
		{Name: "jupyter", Reference: "test/jupyter:7", Port: 8888, KeepPrefix: true, Command: []string{"a", "$(B)"}},
	}
	if got := resolveOrFail(t, a).Live.Images; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := resolveOrFail(t, required()).Live.Images; len(got) != 0 {
		t.Errorf("without a block there are %+v", got)
	}
}

// Errors in a Caddyfile name the line, and errors in JSON name the setting.
func TestWrongImages(t *testing.T) {
	for name, c := range map[string]struct {
		images []Image
		want   string
	}{
		"a name":       {[]Image{{Name: "A", Reference: "x:1"}}, `images A: "A" is not a name`},
		"twice":        {[]Image{{Name: "a", Reference: "x:1"}, {Name: "a", Reference: "x:1"}}, "images a: is given twice"},
		"no reference": {[]Image{{Name: "a"}}, `"images a reference": is required`},
		"an empty one": {[]Image{{Name: "a", Reference: "{env.TEST_NOT_SET}"}}, `"images a reference": is required`},
		"a reference":  {[]Image{{Name: "a", Reference: "a:b:c"}}, `"images a reference": "a:b:c" is not an image`},
		"a title":      {[]Image{{Name: "a", Reference: "a:1", Title: "a\tb"}}, `"images a title": "a\tb" is not a title`},
		"an icon":      {[]Image{{Name: "a", Reference: "a:1", Icon: "cat"}}, `"images a icon": "cat" is not an icon: write one of code, `},
		"a port":       {[]Image{{Name: "a", Reference: "x:1", Port: "0"}}, `"images a port": 0 must be`},
	} {
		t.Run(name, func(t *testing.T) {
			a := required()
			a.Images = c.images
			if _, err := a.Resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
