package forward

import (
	"crypto/tls"
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/caddymodule/internal/site"
)

// linkAddress is the address of a request for the workspace's path at an origin.
func linkAddress(t *testing.T, origin string) *site.Address {
	t.Helper()
	r := gatewaytest.NewRequest("GET", origin+gatewaytest.OnePath+"/a")
	if r.URL.Scheme == "https" {
		r.TLS = &tls.ConnectionState{HandshakeComplete: true}
	}
	at := site.New(site.Options{}).Parse(r)
	return &at
}

// TestAddressesOfTheHostThatTheApplicationSees checks that addresses with this host get the prefix, too. A proxy in
// front of the gateway replaces this host with its own.
func TestAddressesOfTheHostThatTheApplicationSees(t *testing.T) {
	r := gatewaytest.NewRequest("GET", "http://backend:8080"+gatewaytest.OnePath+"/a", "X-Forwarded-Host: public.example", "X-Forwarded-Proto: https")
	at := site.New(site.Options{Trusted: func(*http.Request) bool { return true }}).Parse(r)
	for location, want := range map[string]string{
		"http://backend:8080/x":         "http://backend:8080" + gatewaytest.OnePath + "/x",
		"https://public.example/x":      "https://public.example" + gatewaytest.OnePath + "/x",
		"https://public.example:8080/x": "https://public.example:8080/x",
		"http://backend/x":              "http://backend/x",
	} {
		h := http.Header{"Location": {location}}
		if mapLinks(h, &at); h.Get("Location") != want {
			t.Errorf("%s: got %s", location, h.Get("Location"))
		}
	}
}

func TestAddressesInHeadersGetThePrefix(t *testing.T) {
	const p = gatewaytest.OnePath
	for _, c := range []struct{ origin, name, value, want string }{
		{"http://h:8080", "Location", "/x", p + "/x"},
		{"http://h:8080", "Location", "/", p + "/"},
		{"http://h:8080", "Location", "/x?a=/b#/c", p + "/x?a=/b#/c"},
		{"http://h:8080", "Location", "/?a", p + "/?a"},
		{"http://h:8080", "Location", "http://h:8080/x", "http://h:8080" + p + "/x"},
		{"http://h:8080", "Location", "HTTP://H:8080/x", "HTTP://H:8080" + p + "/x"},
		{"http://h:8080", "Location", "https://h:8080/x", "https://h:8080" + p + "/x"},
		{"http://h:8080", "Location", "//h:8080/x", "//h:8080" + p + "/x"},
		{"http://h:8080", "Location", "http://h:8080", "http://h:8080" + p + "/"},
		{"http://h:8080", "Location", "http://h:8080?a#b", "http://h:8080" + p + "/?a#b"},
		{"http://h", "Location", "http://h:80/x", "http://h:80" + p + "/x"},
		{"https://h", "Location", "https://h:443/x", "https://h:443" + p + "/x"},
		{"https://h", "Location", "http://h/x", "http://h" + p + "/x"},
		{"https://[::1]:8443", "Location", "https://[::1]:8443/x", "https://[::1]:8443" + p + "/x"},
		// Addresses that are mapped already, relative or foreign stay.
		{"http://h:8080", "Location", p, p},
		{"http://h:8080", "Location", p + "?a", p + "?a"},
		{"http://h:8080", "Location", p + "/x", p + "/x"},
		{"http://h:8080", "Location", p + "x", p + p + "x"},
		{"http://h:8080", "Location", "http://h:8080" + p + "/x", "http://h:8080" + p + "/x"},
		{"http://h:8080", "Location", "x/y", "x/y"},
		{"http://h:8080", "Location", "../x", "../x"},
		{"http://h:8080", "Location", "?a", "?a"},
		{"http://h:8080", "Location", "#a", "#a"},
		{"http://h:8080", "Location", "", ""},
		{"http://h:8080", "Location", "http://h/x", "http://h/x"},
		{"http://h:8080", "Location", "http://other.example/x", "http://other.example/x"},
		{"http://h:8080", "Location", "//other.example/x", "//other.example/x"},
		{"http://h:8080", "Location", `/\other.example/x`, `/\other.example/x`},
		{"http://h:8080", "Location", "http://h:8080@other.example/x", "http://h:8080@other.example/x"},
		{"http://h:8080", "Location", "http://h:8080.other.example/", "http://h:8080.other.example/"},
		{"http://h:8080", "Location", "ftp://h:8080/x", "ftp://h:8080/x"},
		{"http://h:8080", "Location", "mailto:a@h", "mailto:a@h"},
		{"http://h:8080", "Content-Location", "/x.en", p + "/x.en"},
		{"http://h:8080", "Refresh", "5", "5"},
		{"http://h:8080", "Refresh", "5; url=/x", "5; url=" + p + "/x"},
		{"http://h:8080", "Refresh", "0;URL='/x'", "0;URL='" + p + "/x'"},
		{"http://h:8080", "Refresh", `1.5, url = "/x" `, `1.5, url = "` + p + `/x" `},
		{"http://h:8080", "Refresh", "3 /x", "3 " + p + "/x"},
		{"http://h:8080", "Refresh", "3;/url", "3;" + p + "/url"},
		{"http://h:8080", "Refresh", "3; url=x", "3; url=x"},
		{"http://h:8080", "Refresh", "3; url=http://h:8080/x", "3; url=http://h:8080" + p + "/x"},
		{"http://h:8080", "Refresh", "3; url=//other.example/", "3; url=//other.example/"},
		{"http://h:8080", "Link", "</a.css>; rel=preload; as=style", "<" + p + "/a.css>; rel=preload; as=style"},
		{"http://h:8080", "Link", `<a>; title="</b>, \"</c>", </d>;rel=next,<http://h:8080/e>`, `<a>; title="</b>, \"</c>", <` + p + `/d>;rel=next,<http://h:8080` + p + `/e>`},
		{"http://h:8080", "Link", "<https://other.example/>; rel=x, <" + p + "/f>", "<https://other.example/>; rel=x, <" + p + "/f>"},
		{"http://h:8080", "Link", "</broken", "</broken"},
		{"http://h:8080", "X-Other", "/x", "/x"},
	} {
		h := http.Header{c.name: {c.value}}
		cleaner := responseCleaner{prefix: p, links: linkAddress(t, c.origin)}
		cleaner.clean(h)
		if got := h.Get(c.name); got != c.want {
			t.Errorf("%s: %s: %q became %q, want %q", c.origin, c.name, c.value, got, c.want)
		}
		// Once is enough.
		if cleaner.clean(h); h.Get(c.name) != c.want && !strings.Contains(c.want, p+p) {
			t.Errorf("%s: %q became %q the second time", c.name, c.want, h.Get(c.name))
		}
	}
	h := http.Header{"Link": {"</a>", "</b>"}}
	cleaner := responseCleaner{prefix: p, links: linkAddress(t, "http://h")}
	if cleaner.clean(h); h["Link"][1] != "<"+p+"/b>" {
		t.Errorf("the second line is %q", h["Link"][1])
	}
}

// TestWebDAVDestinations checks that the addresses of other files in a request are changed to the addresses by which
// the application knows these files.
func TestWebDAVDestinations(t *testing.T) {
	const p = gatewaytest.OnePath
	at := linkAddress(t, "https://h")
	own := *at
	own.OwnHost, own.Prefix = true, ""
	for _, c := range []struct {
		at                 *site.Address
		stripped, basePath string
		value, want        string
	}{
		{at, p, "", "https://h" + p + "/b%20c.txt", "https://h/b%20c.txt"},
		{at, p, "", p + "/b", "/b"},
		{at, p, "", "https://h" + p, "https://h/"},
		{at, p, "", "https://h/b", "https://h/b"},
		{at, p, "", "https://other.example" + p + "/b", "https://other.example" + p + "/b"},
		{at, "", p, "https://h" + p + "/b", "https://h" + p + "/b"}, // the application serves below it
		{&own, "", p, "https://h/b", "https://h" + p + "/b"},
		{&own, "", p, "https://h" + p + "/b", "https://h" + p + "/b"},
		{&own, "", "", "https://h/b", "https://h/b"},
	} {
		h := http.Header{"Destination": {c.value}, "If": {`<` + c.value + `> (<urn:uuid:1> ["<` + p + `/x>"])`}}
		mapDestination(h, c.at, c.stripped, c.basePath)
		if h.Get("Destination") != c.want || h.Get("If") != `<`+c.want+`> (<urn:uuid:1> ["<`+p+`/x>"])` {
			t.Errorf("%q became %q, want %q", c.value, h, c.want)
		}
	}
}
