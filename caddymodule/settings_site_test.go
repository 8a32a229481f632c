package codehub

import (
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/web"
	"github.com/codehub/gateway/coordinator"
)

func TestAddressesFollowFromOneAnother(t *testing.T) {
	for name, c := range map[string]struct {
		settings SiteSettings
		public   Value
		mainHost string
		want     coordinator.Site
	}{
		"nothing":     {want: coordinator.Site{Domain: "localhost", PerHost: web.DefaultWorkspaceURL == web.HostURL}},
		"public URL":  {SiteSettings{WorkspaceURL: "host"}, "https://c.example:8443", "c.example:8443", coordinator.Site{PublicURL: "https://c.example:8443", Domain: "localhost", PerHost: true}},
		"main host":   {SiteSettings{Domain: "ws.example", MainHost: "c.example", WorkspaceURL: "path"}, "", "c.example", coordinator.Site{PublicURL: "https://c.example", Domain: "ws.example"}},
		"here":        {SiteSettings{MainHost: "localhost:8080", WorkspaceURL: "host"}, "", "localhost:8080", coordinator.Site{PublicURL: "http://localhost:8080", Domain: "localhost", PerHost: true}},
		"both differ": {SiteSettings{MainHost: "inside.example", WorkspaceURL: "host"}, "https://c.example", "inside.example", coordinator.Site{PublicURL: "https://c.example", Domain: "localhost", PerHost: true}},
	} {
		a := required()
		a.SiteSettings, a.PublicURL = c.settings, c.public
		if r := resolveOrFail(t, a); r.options.Site != c.want || r.site.mainHost != c.mainHost {
			t.Errorf("%s: got %+v, main host %q; want %+v, %q", name, r.options.Site, r.site.mainHost, c.want, c.mainHost)
		}
	}
}

func TestPublicURLIsAnOrigin(t *testing.T) {
	for _, wrong := range []Value{"codehub.example.com", "ftp://codehub.example.com", "https://codehub.example.com/path", "https://"} {
		a := required()
		a.PublicURL = wrong
		if _, err := a.resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), `setting "public_url"`) || !strings.Contains(err.Error(), "write for example") {
			t.Errorf("%s: got %v", wrong, err)
		}
	}
}

// Who gives the installation a name, and no domain, would have dead links only.
func TestHostsBelowLocalhostAreForThisMachineOnly(t *testing.T) {
	for _, c := range []struct {
		site siteAddresses
		ok   bool
	}{
		{siteAddresses{domain: "localhost", workspaceURL: "host"}, true},
		{siteAddresses{domain: "localhost", workspaceURL: "host", mainHost: "localhost:8080"}, true},
		{siteAddresses{domain: "localhost", workspaceURL: "host", mainHost: "127.0.0.1:8080"}, true},
		{siteAddresses{domain: "localhost", workspaceURL: "path", mainHost: "c.example"}, true},
		{siteAddresses{domain: "c.example", workspaceURL: "host", mainHost: "c.example"}, true},
		{siteAddresses{domain: "localhost", workspaceURL: "host", mainHost: "c.example:8443"}, false},
	} {
		err := c.site.check()
		if (err == nil) != c.ok {
			t.Errorf("%+v: %v", c.site, err)
		}
		if err != nil && !strings.Contains(err.Error(), `"domain"`) || err != nil && !strings.Contains(err.Error(), "domain c.example, or workspace_url path") {
			t.Errorf("the error does not say what to write: %v", err)
		}
	}
}

func TestDirectivesOverrideTheAddressesOfTheApp(t *testing.T) {
	app := siteAddresses{domain: "localhost", mainHost: "a.example", workspaceURL: "host", publicURL: "https://a.example"}
	got := app.override(siteAddresses{mainHost: "b.example", workspaceURL: "path"})
	if want := (siteAddresses{domain: "localhost", mainHost: "b.example", workspaceURL: "path", publicURL: "https://a.example"}); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
