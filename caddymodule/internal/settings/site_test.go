package settings

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator"
)

func TestAddressesFollowFromOneAnother(t *testing.T) {
	for name, c := range map[string]struct {
		settings Site
		public   Value
		mainHost string
		want     coordinator.Site
	}{
		"nothing":     {want: coordinator.Site{Domain: "localhost", PerHost: site.DefaultWorkspaceURL == site.HostURL}},
		"public URL":  {Site{WorkspaceURL: "host"}, "https://c.example:8443", "c.example:8443", coordinator.Site{PublicURL: "https://c.example:8443", Domain: "localhost", PerHost: true}},
		"main host":   {Site{Domain: "ws.example", MainHost: "c.example", WorkspaceURL: "path"}, "", "c.example", coordinator.Site{PublicURL: "https://c.example", Domain: "ws.example"}},
		"here":        {Site{MainHost: "localhost:8080", WorkspaceURL: "host"}, "", "localhost:8080", coordinator.Site{PublicURL: "http://localhost:8080", Domain: "localhost", PerHost: true}},
		"both differ": {Site{MainHost: "inside.example", WorkspaceURL: "host"}, "https://c.example", "inside.example", coordinator.Site{PublicURL: "https://c.example", Domain: "localhost", PerHost: true}},
	} {
		a := required()
		a.Site, a.PublicURL = c.settings, c.public
		if r := resolveOrFail(t, a); r.Options.Site != c.want || r.Site.MainHost != c.mainHost {
			t.Errorf("%s: got %+v, main host %q; want %+v, %q", name, r.Options.Site, r.Site.MainHost, c.want, c.mainHost)
		}
	}
}

func TestPublicURLIsAnOrigin(t *testing.T) {
	for _, wrong := range []Value{"codehub.example.com", "ftp://codehub.example.com", "https://codehub.example.com/path", "https://"} {
		a := required()
		a.PublicURL = wrong
		if _, err := a.Resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), `setting "public_url"`) || !strings.Contains(err.Error(), "write for example") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
}

// An installation with a main host and no domain would have only dead links.
func TestHostsBelowLocalhostAreForThisMachineOnly(t *testing.T) {
	for _, c := range []struct {
		site Addresses
		ok   bool
	}{
		{Addresses{Domain: "localhost", WorkspaceURL: "host"}, true},
		{Addresses{Domain: "localhost", WorkspaceURL: "host", MainHost: "localhost:8080"}, true},
		{Addresses{Domain: "localhost", WorkspaceURL: "host", MainHost: "127.0.0.1:8080"}, true},
		{Addresses{Domain: "localhost", WorkspaceURL: "path", MainHost: "c.example"}, true},
		{Addresses{Domain: "c.example", WorkspaceURL: "host", MainHost: "c.example"}, true},
		{Addresses{Domain: "localhost", WorkspaceURL: "host", MainHost: "c.example:8443"}, false},
	} {
		err := c.site.Check()
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.site, err)
		}
		if err != nil && !strings.Contains(err.Error(), `"domain"`) || err != nil && !strings.Contains(err.Error(), "domain c.example, or workspace_url path") {
			t.Errorf("the error does not say what to write: %v", err)
		}
	}
}

func TestDirectivesOverrideTheAddressesOfTheApp(t *testing.T) {
	app := Addresses{Domain: "localhost", MainHost: "a.example", WorkspaceURL: "host", PublicURL: "https://a.example"}
	got := app.Override(Addresses{MainHost: "b.example", WorkspaceURL: "path"})
	if want := (Addresses{Domain: "localhost", MainHost: "b.example", WorkspaceURL: "path", PublicURL: "https://a.example"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
