package gateway

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/gateway/gatewaytest"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store"
)

// TestAnswersWhileTheProcessEnds checks that an answer that begins while the process ends asks the client to reconnect.
// This holds even if the request came before. It holds for the application's answers, and for the gateway's own answers
// to held requests.
func TestAnswersWhileTheProcessEnds(t *testing.T) {
	stopping := make(chan struct{})
	h := newHarness(t, func(o *Options) { o.Stopping = stopping })
	began, finish := make(chan struct{}), make(chan struct{})
	application := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			close(began)
			<-finish
		}
	}))
	t.Cleanup(application.Close)
	h.Run(one, application)
	kept := new(http.Transport) // the tests' client asks for the end of every connection
	t.Cleanup(kept.CloseIdleConnections)
	// answered sends a request in the background and checks the answer. The returned function waits until the answer
	// has been checked.
	answered := func(path string, status int, closed bool) (wait func()) {
		over := make(chan struct{})
		go func() {
			defer close(over)
			res, err := kept.RoundTrip(gatewaytest.NewRequest(http.MethodGet, h.url+path, asAlice))
			if err != nil {
				t.Errorf("%s: %v", path, err)
				return
			}
			defer res.Body.Close()
			if res.StatusCode != status || res.Close != closed {
				t.Errorf("%s: got %s, and its connection is closed: %t", path, res.Status, res.Close)
			}
		}()
		return func() { <-over }
	}
	answered(onePath+"/", http.StatusOK, false)()
	slow := answered(onePath+"/slow", http.StatusOK, true)
	<-began
	h.Change(two, func(*store.Route) {})
	h.Refuse(service.ErrOperationInProgress)
	held := answered("/w/"+string(two)+"/", http.StatusServiceUnavailable, true)
	h.WaitHeld(1)
	h.exiting.Store(true)
	close(stopping)
	close(finish)
	slow()
	held()
}
