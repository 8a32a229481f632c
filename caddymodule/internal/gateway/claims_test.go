package gateway

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
)

// Applications believe these headers, because normally only a proxy sets them.
func TestNoClaimOfAClientReachesTheWorkspace(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	for _, name := range []string{
		"X-Real-IP", "X-Client-IP", "True-Client-IP", "CF-Connecting-IP", "X-Auth-User", "X-Auth-Email", "X-Auth-Groups", "X-Authenticated-User", "Remote-User", "Remote_User",
		"X-User", "X-Email", "X-WEBAUTH-USER", "X-Forwarded-Port", "X-Forwarded-Scheme", "X-Forwarded-Ssl", "X-Forwarded-Client-Cert", "X-Forwarded-Access-Token", "X_Forwarded_For",
		"X-Original-URL", "X-Rewrite-URL", "X-Goog-Authenticated-User-Email", "Cf-Access-Jwt-Assertion", "Tailscale-User-Login", "X-Ms-Client-Principal-Name", "X-Amzn-Oidc-Identity",
	} {
		if got := h.get(200, onePath+"/", asAlice, name+": EVIL"); strings.Contains(got.body, "EVIL") {
			t.Errorf("%s reaches it: %s", name, got.body)
		}
	}
	for _, name := range []string{"X-Auth-Token", "X-Requested-With", "X-Csrf-Token", "Te", "Cookie", "Traceparent", "Content-Language"} {
		if got := h.get(200, onePath+"/", asAlice, name+": trailers"); !strings.Contains(got.body, "trailers") {
			t.Errorf("%s does not reach it: %s", name, got.body)
		}
	}
}

// A proxy removes the headers that Connection names. A client must not be able to name the headers that the gateway
// adds.
func TestConnectionRemovesNoHeaderOfTheGateway(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	for _, line := range []string{"Connection: X-Forwarded-Prefix", "Connection: close, x-forwarded-prefix, X-Hop"} {
		got := h.get(200, onePath+"/", asAlice, line, "X-Hop: of this hop only", "X-Forwarded-Prefix: /evil")
		if !strings.Contains(got.body, "X-Forwarded-Prefix: "+onePath+"\r\n") || strings.Contains(got.body, "of this hop only") && strings.Contains(line, "X-Hop") {
			t.Errorf("%s: %s", line, got.body)
		}
	}
}

// If a workspace could send headers that apply to a whole origin or host, they would also apply to other workspaces.
func TestResponseHeadersByMode(t *testing.T) {
	app := func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{
			"Clear-Site-Data", "Alt-Svc", "Strict-Transport-Security", "NEL", "Report-To", "Reporting-Endpoints", "Public-Key-Pins",
			"Origin-Agent-Cluster", "Set-Login", "Accept-CH", "Speculation-Rules", "X-Frame-Options", "Content-Security-Policy", "ETag",
		} {
			w.Header().Set(name, "theirs")
		}
	}
	always := []string{"Content-Security-Policy", "Etag", "X-Frame-Options"}
	onHost := append([]string{"Accept-Ch", "Nel", "Origin-Agent-Cluster", "Public-Key-Pins", "Report-To", "Reporting-Endpoints", "Set-Login", "Speculation-Rules", "Strict-Transport-Security"}, always...)
	h := newHarness(t)
	h.Run(one, gatewaytest.App(t, app))
	for _, c := range []struct {
		path  string
		lines []string
		want  []string
	}{
		{onePath + "/", []string{asAlice}, always},
		{"/", []string{asAlice, oneHost}, onHost},
	} {
		var got []string
		for name, values := range h.get(200, c.path, c.lines...).Header {
			if slices.Contains(values, "theirs") {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %v, want %v", c.path, got, c.want)
		}
	}
}
