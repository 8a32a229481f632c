package gateway

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// When the process becomes too old, an open wake page turns into the page that says so. That page reloads until another
// process answers.
func TestAWakePageSaysThatTheServerIsTooOld(t *testing.T) {
	b := openEditor(t)
	b.wants(workspace.PhaseStandby, nil)
	b.do("opening the wake page", chromedp.Navigate(b.url+onePath+"/"), chromedp.WaitVisible(chromedp.CSS(`#wake`)))
	b.refused.Store(&postgres.OlderError{Serving: true, Release: postgres.Release{Known: 5, Schema: 6, Serve: 6}})
	b.wants(workspace.PhasePending, nil) // which answers the poll of the page
	wait.Until(t, "the page says why", func() bool {
		return b.holds(`["This server is too old", "version 6 on: start a newer release"].every((text) =>
			document.body?.innerText.includes(text))`) // a page that is being loaded has no body
	})
	b.refused.Store(nil)
	b.do("the wake page of another process", chromedp.WaitVisible(chromedp.CSS(`#wake`)))
}
