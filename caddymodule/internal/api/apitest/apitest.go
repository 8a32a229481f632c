// Package apitest is a client of the API, for the tests of the library and of the
// adapter.
package apitest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api/openapi/openapitest"
)

// Host is the default host of a client's requests.
const Host = "codehub.test:8080"

// Client is one browser or program.
type Client struct {
	// T fails when a request cannot be sent.
	T testing.TB
	// Dial connects to the server, regardless of the host in a request.
	Dial func(context.Context) (net.Conn, error)
	// Host is the host of the requests.
	Host string
	// Cookie is the session, empty when no user is signed in.
	Cookie string
}

// Reply is a response, read to its end.
type Reply struct {
	*http.Response
	Text []byte
}

// SignIn signs a user in. From then on the client sends the user's session.
func (c *Client) SignIn(username, password string) {
	c.T.Helper()
	r := c.Do("POST", "/api/v1/auth/login", map[string]any{"username": username, "password": password})
	if r.StatusCode != http.StatusOK || len(r.Cookies()) != 1 {
		c.T.Fatalf("signing in: status %d, cookies %v: %s", r.StatusCode, r.Cookies(), r.Text)
	}
	c.Cookie = r.Cookies()[0].Value
}

// Do sends a request with the body v. A string is sent unchanged, and any other value is sent as JSON. Header lines
// follow as "Name: value".
func (c *Client) Do(method, path string, v any, header ...string) Reply {
	c.T.Helper()
	res := c.Open(c.T.Context(), method, path, v, header...)
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.T.Fatal(err)
	}
	return Reply{res, text}
}

// Open is [Client.Do] for a response that the caller reads.
func (c *Client) Open(ctx context.Context, method, path string, v any, header ...string) *http.Response {
	c.T.Helper()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+c.Host+path, c.body(v))
	if err != nil {
		c.T.Fatal(err)
	}
	if v != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.Cookie != "" {
		req.AddCookie(&http.Cookie{Name: "session", Value: c.Cookie})
	}
	for _, h := range header {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext:       func(ctx context.Context, _, _ string) (net.Conn, error) { return c.Dial(ctx) },
	}
	next := http.RoundTripper(transport)
	if c.Host == Host { // others are those of workspaces, too
		next = openapitest.Transport(transport, func(err error) { c.T.Error(err) })
	}
	res, err := next.RoundTrip(req)
	if err != nil {
		c.T.Fatal(err)
	}
	return res
}

func (c *Client) body(v any) io.Reader {
	c.T.Helper()
	switch v := v.(type) {
	case nil:
		return nil
	case string:
		return strings.NewReader(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		c.T.Fatal(err)
	}
	return bytes.NewReader(b)
}

// Create creates a workspace and returns its object.
func (c *Client) Create(name string) map[string]any {
	c.T.Helper()
	r := c.Do("POST", "/api/v1/workspaces", map[string]any{"name": name})
	if r.StatusCode != http.StatusCreated {
		c.T.Fatalf("creating a workspace: status %d: %s", r.StatusCode, r.Text)
	}
	return r.Object(c.T)
}

// WorkspacePath returns the API path of a workspace, given its object.
func WorkspacePath(w map[string]any) string { return fmt.Sprintf("/api/v1/workspaces/%s", w["id"]) }

// Object returns the body, which must be a JSON object.
func (r Reply) Object(t testing.TB) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(r.Text, &v); err != nil {
		t.Fatalf("%v: %s", err, r.Text)
	}
	return v
}

// Problem checks that the response is a problem of this status and type.
func (r Reply) Problem(t testing.TB, status int, kind string) map[string]any {
	t.Helper()
	if r.StatusCode != status || r.Header.Get("Content-Type") != "application/problem+json" {
		t.Fatalf("got status %d, %s: %s; want %d, a problem",
			r.StatusCode, r.Header.Get("Content-Type"), r.Text, status)
	}
	p := r.Object(t)
	if p["type"] != "urn:codehub:problem:"+kind || p["status"] != float64(status) || p["title"] == "" {
		t.Fatalf("got %s, want the type %s", r.Text, kind)
	}
	return p
}
