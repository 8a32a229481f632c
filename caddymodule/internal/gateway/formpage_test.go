package gateway

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// A form that a person sends is held as a program's request is. What a person sees in the end is a page.
func TestAFormGetsAPage(t *testing.T) {
	h := newHarness(t)
	h.Change(one, func(r *store.Route) { r.Phase, r.ErrorReason = workspace.PhaseError, workspace.ReasonTimeout })
	const accept = "Accept: text/html,*/*;q=0.8"
	for _, c := range []struct {
		status int
		lines  []string
		page   bool
	}{
		{502, []string{asAlice, asPage, "Sec-Fetch-User: ?1", accept}, true},
		{502, []string{asAlice, accept}, true},
		{502, []string{asAlice, asProgram}, false},
		{502, []string{asAlice, asSubrequest, accept}, false},
		{502, []string{withToken, asPage, accept}, false},
		{401, []string{asPage, "Sec-Fetch-User: ?1", accept}, true},
		{403, []string{asAlice, asPage, accept, "Sec-Fetch-Site: cross-site"}, true},
		{404, []string{asBob, asPage, "Sec-Fetch-User: ?1", accept}, true},
	} {
		got, err := h.send("POST", "/", "a=b", append(c.lines, oneHost)...)
		if err != nil {
			t.Fatal(err)
		}
		if isPage := strings.HasPrefix(got.Header.Get("Content-Type"), "text/html"); got.StatusCode != c.status || isPage != c.page {
			t.Errorf("%q: status %d, %s", c.lines, got.StatusCode, got.Header.Get("Content-Type"))
		}
		if got.StatusCode == 401 && got.Header.Get("WWW-Authenticate") == "" {
			t.Errorf("%q: %v", c.lines, got.Header)
		}
	}
}
