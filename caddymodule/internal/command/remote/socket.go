package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/caddymodule/internal/problem"
)

// maxMessage bounds a message of a WebSocket, in bytes.
const maxMessage = 1 << 20

// Socket opens a WebSocket at a path below the API. If the server refuses, the error is a [*problem.Problem]. The
// caller MUST close the WebSocket.
func (c *Client) Socket(ctx context.Context, path, protocol string) (*websocket.Conn, error) {
	opening := *c.http
	opening.Transport = upgrading{c}
	//nolint:bodyclose
	conn, _, err := websocket.Dial(ctx, c.server.String()+apiPath+path, &websocket.DialOptions{
		HTTPClient: &opening, HTTPHeader: c.header(), Subprotocols: []string{protocol},
	})
	var refused *problem.Problem
	switch {
	case errors.As(err, &refused) && refused.Type == problem.Method.Type:
		return nil, errors.New("the server is older than this program and does not do that: bring it up to date")
	case errors.As(err, &refused):
		return nil, refused
	case err != nil:
		return nil, fmt.Errorf("the server cannot be reached: %w", err)
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}

// upgrading makes the requests that open a WebSocket. It turns any other answer into an error.
type upgrading struct{ *Client }

// RoundTrip implements [http.RoundTripper].
func (u upgrading) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil || resp.StatusCode == http.StatusSwitchingProtocols {
		return resp, err
	}
	defer resp.Body.Close()
	if err := u.refusal(resp); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s answers %s and opens no WebSocket: does a proxy in front of it forward them?", u.server, resp.Status)
}
