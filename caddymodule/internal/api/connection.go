package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/reach"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/words"
)

const (
	// checkStreamFor is how long a stream stays open after its only event. The doctor waits for the event for less
	// time, so it notices a proxy that buffers answers until they end.
	checkStreamFor = 15 * time.Second
	// checkCookieFor is how long a browser would keep the cookie, in seconds.
	checkCookieFor = 60
)

// connection is GET [reach.Path]. It shows the doctor of this installation how the doctor's own requests arrive. All
// other clients get the answer for a path that does not exist.
func (h *Handler) connection(w http.ResponseWriter, r *http.Request) error {
	asked, ok := reach.Parse(r.Header.Get(reach.Header), h.Database())
	if !ok {
		return problem.NotFound.With("problem.no_path", words.Values{"Path": r.URL.Path})
	}
	at := h.Site.Parse(r)
	answer := reach.Answer{
		Proof: asked.Proof(), Client: h.ClientAddress(r), Scheme: at.Scheme(), Host: at.Host(), Main: at.IsMain(),
		TLS: r.TLS != nil, Forwarded: reach.ForwardedNot,
	}
	switch {
	case at.Proxied():
		answer.Forwarded = reach.ForwardedTrusted
	case r.Header.Get("X-Forwarded-For") != "" || r.Header.Get("X-Forwarded-Proto") != "" || r.Header.Get("X-Forwarded-Host") != "":
		answer.Forwarded = reach.ForwardedUntrusted
	}
	at.SetSession(w, reach.Cookie, "set", checkCookieFor)
	switch {
	case site.IsWebSocket(r):
		return h.connectionSocket(w, r, answer)
	case strings.Contains(r.Header.Get("Accept"), "text/event-stream"):
		return h.connectionStream(w, r, answer)
	}
	return sendJSON(w, http.StatusOK, answer)
}

// connectionSocket sends the answer as the only message of a WebSocket.
func (h *Handler) connectionSocket(w http.ResponseWriter, r *http.Request, answer reach.Answer) error {
	socket, err := websocket.Accept(w, r, nil)
	if err != nil {
		return nil // the request has been answered
	}
	defer socket.CloseNow()
	if wsjson.Write(r.Context(), socket, answer) == nil {
		_ = socket.Close(websocket.StatusNormalClosure, "")
	}
	return nil
}

// connectionStream sends the answer as the only event of a stream, which stays open for a while.
func (h *Handler) connectionStream(w http.ResponseWriter, r *http.Request, answer reach.Answer) error {
	body, err := json.Marshal(answer)
	if err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	streamHeader(w.Header())
	w.WriteHeader(http.StatusOK)
	fmt.Fprintf(w, "data: %s\n\n", body)
	if http.NewResponseController(w).Flush() != nil {
		return nil
	}
	ended := time.NewTimer(checkStreamFor)
	defer ended.Stop()
	select {
	case <-ended.C:
	case <-r.Context().Done():
	case <-h.Stopping:
	}
	return nil
}
