// Package engine connects to a Docker engine, and knows which one it is (SPEC 2).
//
// It owns the client's transport, the meaning of its errors, and the question for the engine's id, which package peer
// asks on every connection. It must not know what the requests are for, nor which engine is the right one: the code
// that records the id decides that.
package engine

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/internal/peer"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// idleConns is how many idle connections stay open, about as many as there are concurrent calls. The client's
	// default is 2. idleFor is longer than the time between two observations, because each new connection asks for the
	// id first.
	idleConns = 8
	idleFor   = 5 * time.Minute
	// AnswerLimit bounds a call that reads and does not stream, so that a hanging engine counts as one that does not
	// answer.
	AnswerLimit = 30 * time.Second
	// pingLimit bounds the engine's answer to a ping.
	pingLimit = 10 * time.Second
)

// Client is Docker's client, connected to a known engine.
type Client struct {
	*client.Client
	base  *http.Transport
	watch *peer.Watcher
}

// Connect returns a client of the engine at host. If host is empty, the address comes from DOCKER_HOST and the other
// variables of Docker's own tools. around, if not nil, wraps the transport. Connect performs no I/O: the first call
// connects and negotiates the API version.
func Connect(host string, around func(http.RoundTripper) http.RoundTripper) (*Client, error) {
	use := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if host != "" {
		use = append(use, client.WithHost(host))
	}
	c := new(Client)
	// The last option finds the transport that the others have configured.
	api, err := client.NewClientWithOpts(append(use, func(api *client.Client) error {
		return c.attach(api, around)
	})...)
	if err != nil {
		return nil, fmt.Errorf("reading the address of the Docker engine: %w", err)
	}
	c.Client = api
	return c, nil
}

// attach watches and wraps the transport of api. Requests through it are bound to the sender's lease.
func (c *Client) attach(api *client.Client, around func(http.RoundTripper) http.RoundTripper) error {
	h := api.HTTPClient()
	base, ok := h.Transport.(*http.Transport)
	if !ok {
		return fmt.Errorf("the client has an unknown transport %T", h.Transport)
	}
	base.MaxIdleConns, base.MaxIdleConnsPerHost, base.IdleConnTimeout = idleConns, idleConns, idleFor
	c.base, c.watch = base, peer.New("Docker engine", new(asker).ask)
	c.watch.Attach(base)
	// The client looks for TLS settings only in a plain transport.
	scheme := "http"
	if base.TLSClientConfig != nil {
		scheme = "https"
	}
	h.Transport = backend.Leased(base)
	if around != nil {
		h.Transport = around(h.Transport)
	}
	return errors.Join(client.WithHTTPClient(h)(api), client.WithScheme(scheme)(api))
}

// Close closes idle connections.
func (c *Client) Close() error {
	c.base.CloseIdleConnections()
	return c.Client.Close()
}

// Identity returns the id of the engine and of its data folder. Every new connection asks for the id. So Identity makes
// a call only if there was no connection yet. Identity returns the id of the engine that answered last: see package
// peer.
func (c *Client) Identity(ctx context.Context) (string, error) {
	const doing = "asking the engine for its id"
	id, err := c.watch.ID()
	if err == nil && id == "" {
		if err := c.Answers(ctx); err != nil {
			return "", Wrap(doing, err)
		}
		id, err = c.watch.ID()
	}
	if err != nil {
		return "", workspace.Fail(workspace.ReasonUnreachable, fmt.Errorf("%s: %w", doing, err))
	}
	return id, nil
}

// Answers fails unless the engine answers promptly.
func (c *Client) Answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingLimit)
	defer cancel()
	_, err := c.Ping(ctx)
	return err
}

// Inspect returns the container with that name or id, or nil if it does not exist.
func (c *Client) Inspect(ctx context.Context, name string) (*container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerLimit)
	defer cancel()
	found, err := c.ContainerInspect(ctx, name)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, Wrap("inspecting container "+name, err)
	}
	return &found, nil
}

// Since returns when the engine started, which is when it created its default network.
// If the engine lacks that network or hides it, Since returns the zero time.
func (c *Client) Since(ctx context.Context) (time.Time, error) {
	n, err := c.NetworkInspect(ctx, network.NetworkBridge, network.InspectOptions{})
	if errdefs.IsNotFound(err) || errdefs.IsPermissionDenied(err) {
		return time.Time{}, nil
	}
	if err != nil {
		return time.Time{}, fmt.Errorf("asking when the engine started: %w", err)
	}
	return n.Created, nil
}

// StorageDriver returns the engine's driver for the files of containers.
func (c *Client) StorageDriver(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerLimit)
	defer cancel()
	info, err := c.Info(ctx)
	return info.Driver, Wrap("asking the engine for its storage driver", err)
}

// Now returns the time by the engine's clock, the one that counts for its containers and their files (SPEC 12.13).
func (c *Client) Now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, AnswerLimit)
	defer cancel()
	const doing = "asking the engine for its time"
	info, err := c.Info(ctx)
	if err != nil {
		return time.Time{}, Wrap(doing, err)
	}
	now := Time(info.SystemTime)
	if now.IsZero() {
		return now, fmt.Errorf("%s: it says %q", doing, info.SystemTime)
	}
	return now, nil
}

// Time parses a time from the engine, whose zero time is in the year 1. It returns the zero time if s is invalid.
func Time(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil || t.Year() <= 1 {
		return time.Time{}
	}
	return t
}

// Reconnects is [peer.Watcher.Reconnects].
func (c *Client) Reconnects() uint64 { return c.watch.Reconnects() }
