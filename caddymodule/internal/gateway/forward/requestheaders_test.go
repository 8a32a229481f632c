package forward

import (
	"net/http"
	"slices"
	"testing"
)

func TestCleanCookies(t *testing.T) {
	const applications = "session=1; __Host-session=2; __Secure-session=3; __hOsT-session=4"
	for _, c := range []struct{ in, want []string }{ // on the main site
		{[]string{"a=1; b=2"}, []string{"a=1; b=2"}},
		{[]string{"session=x"}, nil},
		{[]string{"codehub_oidc=x; __Host-codehub_oidc=y; codehub_lang=ko; codehub_browser=z; codehubs=1"}, []string{"codehubs=1"}},
		{[]string{"session=x; a=1"}, []string{"a=1"}},
		{[]string{"a=1; session=x; b=2"}, []string{"a=1; b=2"}},
		{[]string{"a=1;session=x;codehub_ws=y;b=\"2 \""}, []string{"a=1;b=\"2 \""}},
		{[]string{"a=1; session=x", "codehub_ws=z", "c=3"}, []string{"a=1", "c=3"}},
		{[]string{" session = x ; a=1"}, []string{"a=1"}},
		{[]string{"session"}, nil},
		{[]string{"sessions=1; xsession=2; Session=3"}, []string{"sessions=1; xsession=2; Session=3"}},
		{[]string{"weird;;=; a==b=; session=x"}, []string{"weird;;=; a==b="}},
		{[]string{applications + "; codehub_session=x; __Host-codehub_session=y"}, nil},
	} {
		h := http.Header{"Cookie": slices.Clone(c.in)}
		cleanRequestHeaders(h, false, false)
		if got := h["Cookie"]; !slices.Equal(got, c.want) {
			t.Errorf("%q: got %q, want %q", c.in, got, c.want)
		}
	}
	h := http.Header{"Cookie": {applications + "; codehub_session=x; __Host-codehub_ws=y; __Secure-codehub_browser=z"}}
	cleanRequestHeaders(h, true, false)
	if got := h["Cookie"]; !slices.Equal(got, []string{applications}) {
		t.Errorf("on the workspace's own host: got %q", got)
	}
}

func TestCleanHeadersRemovesClaims(t *testing.T) {
	claims := []string{"Forwarded", "forwarded", "X-Forwarded-Prefix", "x_forwarded_prefix", "X-Codehub-User", "X_codehub_User", "Remote-User", "Remote_User",
		"X-Remote-User", "X-Forwarded-User", "X-Forwarded-Groups", "X-Auth-Request-Email",
		"Proxy", "PROXY", "X-Ssl-Client-Cn", "X_SSL_Client_CN", "X-Ssl-Client-Cert", "X-Ssl-Client-Verify", "Ssl-Client-S-Dn", "X-Client-Cert", "X-Client-Cert-Chain",
		"Client-Cert", "Client-Cert-Chain", "X-ARR-ClientCert", "X-Amzn-Mtls-Clientcert", "X-Amzn-Mtls-Clientcert-Subject",
		"X-Forwarded-Client-Cert", "X-Forwarded-Tls-Client-Cert"}
	keep := []string{"Authorization", "X-Forwarded-For", "X-Forwarded-Host", "Origin", "Accept", "X-Codehubs", "Remotely", "X-Request-Id", "Proxy-Status", "X-Client-Data", "Ssl-Client", "Save-Data", "Priority"}
	h := http.Header{}
	for _, n := range append(slices.Clone(claims), keep...) {
		h[n] = []string{"v"}
	}
	cleanRequestHeaders(h, false, false)
	for _, n := range claims {
		if h[n] != nil {
			t.Errorf("%s was kept", n)
		}
	}
	for _, n := range keep {
		if h[n] == nil {
			t.Errorf("%s was removed", n)
		}
	}
	cleanRequestHeaders(h, true, true)
	if h["Authorization"] != nil {
		t.Error("the password reaches the workspace")
	}
}

func TestCleanHeadersAllocatesNothing(t *testing.T) {
	h := http.Header{"Cookie": {"a=1; b=2"}, "Accept": {"*/*"}, "X-Forwarded-For": {"1.2.3.4"}}
	if n := testing.AllocsPerRun(100, func() { cleanRequestHeaders(h, true, false) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// The headers that Connection names concern this hop only, so their names are removed from Connection.
func TestCleanConnection(t *testing.T) {
	for in, want := range map[string]string{"Upgrade": "Upgrade", "keep-alive, Upgrade": "keep-alive, Upgrade", "Upgrade, X-A": "Upgrade", " close ,, X-A,te": "close, te", "X-A": ""} {
		h := http.Header{"Connection": {in}, "X-A": {"1"}}
		cleanConnection(h)
		if got := h["Connection"][0]; got != want {
			t.Errorf("%q became %q", in, got)
		}
	}
}
