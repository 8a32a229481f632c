package e2e

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestQuestionsWithoutAnAnswerAreAskedAgain: on a changing network, such as a laptop's, none of the dashboard's first
// requests gets an answer. It nevertheless shows everything.
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
	b.resumes(in, me)
}

// resumes restarts the server while a dashboard is open. It checks that the dashboard shows the changes that it missed,
// and that the server sent it only these changes and not the whole list.
func (b *tab) resumes(in *installation, me *user) {
	b.t.Helper()
	for _, name := range []string{"stays", "goes"} {
		me.call(b.t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": name, "desired_state": "ARCHIVED"}, http.StatusCreated, nil)
		b.do(name+" is listed", chromedp.WaitVisible(chromedp.CSS(fmt.Sprintf("[data-name=%s][data-phase=ARCHIVED][data-operation=NONE]", name))))
	}
	in.stop(b.t)
	b.do("the loss is said", chromedp.WaitVisible(chromedp.CSS(`#connection[data-state=lost]`)))
	var mu sync.Mutex
	var told []string
	if err := chromedp.Listen(b.ctx, func(event any) {
		if e, ok := event.(*network.EventEventSourceMessageReceived); ok {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, e.EventName)
		}
	}); err != nil {
		b.t.Fatal(err)
	}
	in.sql(b.t, "UPDATE workspaces SET deleted_at = now(), desired_state = 'DELETED', updated_at = now() WHERE name = 'goes'")
	in.start(b.t)
	b.do("it is back", chromedp.WaitVisible(chromedp.CSS(`#connection[data-state=live]`)))
	b.do("what was deleted meanwhile has gone", chromedp.WaitNotPresent(chromedp.CSS(`[data-name=goes]`)),
		chromedp.WaitVisible(chromedp.CSS(`[data-name=stays]`)))
	mu.Lock()
	defer mu.Unlock()
	// If the server had sent the whole list, there would be no deletion in it, and a heartbeat at its end.
	missed := told[:max(slices.Index(told, "resumed"), 0)]
	if !slices.Contains(missed, "workspace_deleted") || slices.Contains(missed, "heartbeat") {
		b.t.Errorf("it was told %v, want what was missed and that the stream goes on", told)
	}
}

// losesFirst makes the first request to each address that matches the pattern fail without an answer. The returned
// function returns how many requests there have been so far to addresses that contain part.
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
