package gateway

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestALimitInTheBrowser checks that the limit page is on the main site, and that its button leads back to the
// workspace's own host. The page's policy must allow this.
func TestALimitInTheBrowser(t *testing.T) {
	b := openEditor(t)
	b.asleep()
	b.Change(two, func(r *store.Route) {
		r.Name, r.Phase, r.Desired, r.Endpoint = "other", workspace.PhaseRunning, workspace.DesiredRunning, "127.0.0.1:1"
	})
	b.SetRunning(workspace.Workspace{ID: two, Name: "other", DesiredState: workspace.DesiredRunning, Operation: workspace.OpNone})
	b.Refuse(&service.LimitError{Scope: "user", Limit: 1})
	_, port, _ := strings.Cut(strings.TrimPrefix(b.url, "http://"), ":")
	b.do("opening the workspace's host", chromedp.Navigate("http://"+gatewaytest.OneHost+":"+port+"/deep?x#part"),
		chromedp.WaitVisible(chromedp.CSS(`form.leads-back button.main`)))
	b.picture("limit")
	if host := js[string](b, `location.host`); host != "localhost:"+port {
		t.Errorf("the page is on %s", host)
	}
	b.do("pressing the button", chromedp.Click(chromedp.CSS(`form.leads-back button.main`)), chromedp.WaitVisible(chromedp.CSS(`#wake`)))
	if at := js[string](b, `location.href`); at != "http://"+gatewaytest.OneHost+":"+port+"/deep?x#part" {
		t.Errorf("the button leads to %s", at)
	}
	if b.Desired(two) != workspace.DesiredStandby {
		t.Error("the other workspace is not put to sleep")
	}
}
