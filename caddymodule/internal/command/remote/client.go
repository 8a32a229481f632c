// Package remote is the client of the API in `caddy codehub`. It owns where the person is signed in (login, logout,
// token), the requests to a server or to the API in this process, and which of the two a command uses. It must neither
// touch the servers of an installation nor know what a request is for.
package remote

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
)

// apiPath is the path of the API on every server.
const apiPath = "/api/v1/"

// answerTimeout bounds a request with a finite answer. maxAnswer bounds the answer's size, in bytes.
const (
	answerTimeout = time.Minute
	maxAnswer     = 64 << 20
)

// Client gives access to the API: to a person at one server, or to an operator in this process. It is safe for
// concurrent use.
type Client struct {
	server *url.URL // without a path
	token  string   // empty before the person is signed in, and for an operator
	http   *http.Client
	local  bool
}

// newClient returns a client for a server. The token is sent to that server only.
func newClient(server *url.URL, token string) *Client {
	return &Client{server: server, token: token, http: &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Local returns a client for the API in this process, which it reaches through transport. Its requests return the
// transport's errors unchanged, and have no time limit.
func Local(transport http.RoundTripper) *Client {
	return &Client{server: &url.URL{Scheme: "http", Host: "localhost"}, http: &http.Client{Transport: transport}, local: true}
}

// IsLocal reports whether the API is in this process.
func (c *Client) IsLocal() bool { return c.local }

// Server returns the address of the server.
func (c *Client) Server() string { return c.server.String() }

// Address returns the absolute form of an address from the server.
func (c *Client) Address(of string) string {
	at, err := c.server.Parse(of)
	if err != nil {
		return of
	}
	return at.String()
}

// Do makes a request to a path below the API. in is the body as JSON, nil for none; out gets the answer, unless it is
// nil. If the server refuses, the error is a [*problem.Problem].
func (c *Client) Do(ctx context.Context, method, path string, in, out any) error {
	if !c.local {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, answerTimeout)
		defer cancel()
	}
	resp, err := c.send(ctx, method, path, in)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if out == nil {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil {
		err = json.Unmarshal(body, out)
	}
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", c.server, err)
	}
	return nil
}

// Copy makes a GET request, and writes the answer to w as it arrives. The answer may be endless.
func (c *Client) Copy(ctx context.Context, path string, w io.Writer) error {
	resp, err := c.send(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil && ctx.Err() == nil {
		return fmt.Errorf("reading the answer of %s: %w", c.server, err)
	}
	return nil
}

// send makes a request, and returns a successful answer.
func (c *Client) send(ctx context.Context, method, path string, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, fmt.Errorf("writing the request: %w", err)
		}
		body = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.server.String()+apiPath+path, body)
	if err != nil {
		return nil, fmt.Errorf("writing the request: %w", err)
	}
	r.Header = c.header()
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	resp, err := c.http.Do(r)
	if err != nil {
		if c.local {
			return nil, errors.Unwrap(err) // from [url.Error], which names a request that the person has not made
		}
		return nil, fmt.Errorf("the server cannot be reached: %w", err)
	}
	if err := c.refusal(resp); err != nil {
		resp.Body.Close()
		return nil, err
	}
	return resp, nil
}

// header returns the header of every request.
func (c *Client) header() http.Header {
	h := http.Header{"User-Agent": {"caddy codehub"}}
	if c.token != "" {
		h.Set("Authorization", "Bearer "+c.token)
	}
	return h
}

// refusal returns the error in an answer, or nil.
func (c *Client) refusal(resp *http.Response) error {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	switch {
	case kind == "application/problem+json":
		p := new(problem.Problem)
		if err := json.NewDecoder(io.LimitReader(resp.Body, maxAnswer)).Decode(p); err != nil {
			return fmt.Errorf("%s answers %s and an error that cannot be read: %w", c.server, resp.Status, err)
		}
		return p
	case resp.StatusCode >= 300 && resp.StatusCode < 400:
		return fmt.Errorf("%s leads to %s: log in there, if it is the same server",
			c.server, resp.Header.Get("Location"))
	case resp.StatusCode >= 400 || kind == "text/html":
		return fmt.Errorf("%s answers %s and not as CodeHub does: is it the address of its dashboard?",
			c.server, resp.Status)
	}
	return nil
}

// parseServer parses the address of a server, whose scheme is https unless the address says otherwise. If an address
// has no scheme and the server is on this machine, parseServer asks the server whether it speaks TLS. It does not send
// the token. If the server does not speak TLS, the scheme is http.
func parseServer(ctx context.Context, s string) (*url.URL, error) {
	u, err := parseAddress(s)
	if err == nil && !strings.Contains(s, "://") && site.IsLocal(u.Host) && isPlain(ctx, u.Host) {
		u.Scheme = "http"
	}
	return u, err
}

// isPlain reports whether a server on this machine does not speak TLS, or does not exist.
func isPlain(ctx context.Context, host string) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	if _, _, err := net.SplitHostPort(host); err != nil {
		host = net.JoinHostPort(strings.Trim(host, "[]"), "443")
	}
	conn, err := new(tls.Dialer).DialContext(ctx, "tcp", host)
	if err == nil {
		_ = conn.Close()
	}
	var other tls.RecordHeaderError
	return errors.As(err, &other) || errors.Is(err, syscall.ECONNREFUSED)
}

// parseAddress is parseServer without probing.
func parseAddress(s string) (*url.URL, error) {
	if s == "" {
		return nil, errors.New("the address of the server is missing: write for example https://codehub.example.com")
	}
	if !strings.Contains(s, "://") {
		s = "https://" + s
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.User != nil ||
		strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "" {
		return nil, fmt.Errorf("%q is not the address of a server: write for example https://codehub.example.com", s)
	}
	return &url.URL{Scheme: u.Scheme, Host: u.Host}, nil
}
