package codehub

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
	a.Images = []ImageSettings{
		{Name: "code", Reference: "test/code:1", Description: "an editor"},
		{Name: "jupyter", Reference: "{env.TEST_JUPYTER}", Port: "8888", KeepPrefix: true, Command: []string{"a", "$(B)"}},
	}
	want := launch.Catalog{
		{Name: "code", Reference: "test/code:1", Description: "an editor"},
		{Name: "jupyter", Reference: "test/jupyter:7", Port: 8888, KeepPrefix: true, Command: []string{"a", "$(B)"}},
	}
	if got := resolveOrFail(t, a).live.Images; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
	if got := resolveOrFail(t, required()).live.Images; len(got) != 0 {
		t.Errorf("without a block there are %+v", got)
	}
}

// What the Caddyfile refuses by line, the JSON configuration refuses by name.
func TestWrongImages(t *testing.T) {
	for name, c := range map[string]struct {
		images []ImageSettings
		want   string
	}{
		"a name":       {[]ImageSettings{{Name: "A", Reference: "x:1"}}, `images A: "A" is not a name`},
		"twice":        {[]ImageSettings{{Name: "a", Reference: "x:1"}, {Name: "a", Reference: "x:1"}}, "images a: is given twice"},
		"no reference": {[]ImageSettings{{Name: "a"}}, `"images a reference": is required`},
		"an empty one": {[]ImageSettings{{Name: "a", Reference: "{env.TEST_NOT_SET}"}}, `"images a reference": is required`},
		"a reference":  {[]ImageSettings{{Name: "a", Reference: "a:b:c"}}, `"images a reference": "a:b:c" is not an image`},
		"a port":       {[]ImageSettings{{Name: "a", Reference: "x:1", Port: "0"}}, `"images a port": 0 must be`},
	} {
		t.Run(name, func(t *testing.T) {
			a := required()
			a.Images = c.images
			if _, err := a.resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v", err)
			}
		})
	}
}
