package e2e

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestQuestionsWithoutAnAnswerAreAskedAgain: on a network that changes, as a laptop's does, no
// first question of the dashboard gets an answer. It shows everything all the same.
func TestQuestionsWithoutAnAnswerAreAskedAgain(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	me.call(t, http.MethodDelete, "/api/v1/workspaces/"+me.create(t, "deleted").ID, nil, http.StatusAccepted, nil)
	b := openTab(t)
	asked := b.losesFirst("*/api/v1/*")
	b.do("opening it", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.do("the stream is open", chromedp.WaitVisible(chromedp.CSS(`#connection[data-state=live]`)))
	b.says(`#running`, "0 of ", "개 중 0개")
	b.do("what was deleted is listed", chromedp.WaitVisible(chromedp.CSS(`#deleted-list li`)))
	for _, path := range []string{"/api/v1/events", "/api/v1/images", "/api/v1/limits", "/api/v1/workspaces?deleted="} {
		wait.Until(t, path+" is asked for again", func() bool { return asked(path) > 1 })
	}
}

// losesFirst lets the first question to each address of the pattern end without an answer. The
// returned function tells how often an address that contains a text was asked so far.
func (b *tab) losesFirst(pattern string) (asked func(part string) int) {
	b.t.Helper()
	var mu sync.Mutex
	times := make(map[string]int)
	err := chromedp.Listen(b.ctx, func(event any) {
		e, ok := event.(*fetch.EventRequestPaused)
		if !ok {
			return
		}
		mu.Lock()
		times[e.Request.URL]++
		lose := e.Request.Method == http.MethodGet && times[e.Request.URL] == 1
		mu.Unlock()
		go func() { // a call waits for other events; it fails if the tab is closed meanwhile
			if lose {
				_, _ = chromedp.Call(b.ctx, fetch.FailRequest, fetch.FailRequestParams{RequestID: e.RequestID, ErrorReason: network.ErrorReasonConnectionAborted})
			} else {
				_, _ = chromedp.Call(b.ctx, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID})
			}
		}()
	})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := chromedp.Call(b.ctx, fetch.Enable, fetch.EnableParams{Patterns: []*fetch.RequestPattern{{URLPattern: pattern}}}); err != nil {
		b.t.Fatal(err)
	}
	return func(part string) (n int) {
		mu.Lock()
		defer mu.Unlock()
		for url, asked := range times {
			if strings.Contains(url, part) {
				n = max(n, asked)
			}
		}
		return n
	}
}
