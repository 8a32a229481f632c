package gateway

import (
	"net/url"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/workspace"
)

// A page of another port reports a person's input for the same workspace, as a page of the
// application does. No page can report, wake or keep awake a workspace, or swap workspaces, through an origin that is
// not its own.
func TestPagesOfOtherPortsReportPresence(t *testing.T) {
	h := newHarness(t, portsOn)
	app := gatewaytest.App(t, pageApp(t))
	h.Run(one, app)
	host := portHost(t, beside(t, app, app).URL)
	page := h.get(200, "/", asAlice, asPage, host)
	_, src, found := strings.Cut(page.body, `src="`)
	if src, _, _ = strings.Cut(src, `"`); !found || !strings.HasPrefix(src, "/.codehub/presence.js?") {
		t.Fatalf("the page is %s", page.body)
	}
	h.get(200, src, asAlice, asSubrequest, host)
	h.get(200, "/.codehub/presence", asAlice, asSubrequest, sameOrigin, host)
	tell := func(host, path, body string, lines ...string) int {
		got, err := h.send("POST", path, body, append(lines, host, asAlice, asSubrequest)...)
		if err != nil {
			t.Fatal(err)
		}
		return got.StatusCode
	}
	if status := tell(host, "/.codehub/presence", `{"hello":true}`, sameOrigin); status != 204 {
		t.Fatalf("a page of the port gets %d", status)
	}
	h.waitServed()
	h.Used(one)
	if tell(host, "/.codehub/presence", `{"input":true}`, sameOrigin); !h.Used(one) {
		t.Error("what a person does at the port is no use of the workspace")
	}
	of := func(line string) string { return "Origin: http://" + strings.TrimPrefix(line, "Host: ") }
	own := "Host: " + gatewaytest.OneHost
	for _, c := range []struct{ at, from string }{{host, own}, {own, host}, {own, "Host: ws-" + string(two) + ".localhost"}, {own, "Host: localhost"}} {
		for _, site := range [][]string{{of(c.from), "Sec-Fetch-Site: same-site"}, {of(c.from)}, {"Origin: null"}} {
			for path, body := range map[string]string{
				"/.codehub/presence": `{"input":true,"stay":true,"wake":true}`, "/.codehub/keep-awake": `{"hours":8}`,
				"/.codehub/swap": url.Values{"sleep": {string(two)}}.Encode(),
			} {
				if status := tell(c.at, path, body, site...); status != 403 {
					t.Errorf("%s from %s by %s gets %d at %s", path, c.from, site, status, c.at)
				}
			}
		}
	}
	if h.Used(one) || h.KeptAwake(one) != 0 || h.Woken() {
		t.Error("a page of another origin has used, woken or kept awake the workspace")
	}
}

// In path mode, the pages of a running workspace have the same origin as the limit page. They must not be able to put
// the user's other workspaces to sleep.
func TestARunningWorkspaceSwapsNothing(t *testing.T) {
	h := newLimit(t)
	h.Run(one, gatewaytest.Echo(t))
	if got := h.swap(onePath, two, onePath+"/x", append(asForm, asAlice)...); got.StatusCode != 303 || got.Header.Get("Location") != onePath+"/x" {
		t.Errorf("got %d to %q", got.StatusCode, got.Header.Get("Location"))
	}
	if h.Desired(two) != workspace.DesiredRunning || h.Woken() {
		t.Error("the other workspace is put to sleep")
	}
}

// A page may plant a second secret only for the path of the ticket. Browsers send this cookie to no other path, so it
// must be deleted on that path, or every sign-in would fail.
func TestAPlantedSecretIsClearedWhereItComes(t *testing.T) {
	h := newHarness(t)
	h.Run(one, gatewaytest.Echo(t))
	got := h.get(403, "/.codehub/ticket?t="+gatewaytest.Ticket(one)+"&return=/", oneHost, asPage, "Cookie: codehub_browser="+gatewaytest.Browser+"; codehub_browser=planted")
	want := "codehub_browser=; Max-Age=0; Path=/.codehub/; Domain=localhost"
	if lines := strings.Join(got.Header["Set-Cookie"], "\n"); !strings.Contains(lines, want) {
		t.Errorf("the answer deletes\n%s\nand not %s", lines, want)
	}
}
