package backendtest

import (
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend"
)

// testStartAsSpecified starts a container with everything that a configured image may specify, and another one with
// nothing.
func testStartAsSpecified(t *testing.T, f Fixture) {
	b, id, ctx := f.New(t, Installation()), newID(), Context(t)
	must(t, b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: "op"}))
	spec := backend.StartSpec{
		ID: id, Port: 9090, Command: []string{"serve", "9090"}, Env: []string{"CODEHUB_TEST=a b=c"},
		Hostname: "cs-path", BasePath: "/w/" + string(id),
	}
	must(t, b.Start(ctx, spec))
	endpoint := Ready(t, b, id)
	got := request(t, http.MethodGet, endpoint, "/start", nil)
	host, rest, _ := strings.Cut(got, " ")
	if label, _, _ := strings.Cut(host, "."); label != "cs-path" || rest != "serve 9090 a b=c\n" {
		t.Errorf("it was started as %q", got)
	}
	all, err := b.Containers(ctx)
	must(t, err)
	if all[id].BasePath != spec.BasePath || all[id].Endpoint != endpoint {
		t.Errorf("the bulk listing says %+v", all[id])
	}
	// Another name or image takes effect at the next start: people may be working in this container.
	spec.Env, spec.Hostname, spec.BasePath = []string{"CODEHUB_TEST=other"}, "other", ""
	must(t, b.Start(ctx, spec))
	if c, _ := containerOf(t, b, id); c.BasePath == "" || c.Endpoint != endpoint {
		t.Errorf("a running container was replaced: %+v", c)
	}
	must(t, b.Delete(ctx, id))
	must(t, b.Start(ctx, backend.StartSpec{ID: id}))
	if got := request(t, http.MethodGet, Ready(t, b, id), "/start", nil); got != id.ContainerName()+"  \n" {
		t.Errorf("without anything specified it was started as %q", got)
	}
	if c, _ := containerOf(t, b, id); c.BasePath != "" {
		t.Errorf("it keeps the base path %q", c.BasePath)
	}
}
