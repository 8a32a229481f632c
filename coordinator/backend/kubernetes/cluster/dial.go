package cluster

import (
	"bufio"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/proxy"

	"github.com/codehub/gateway/coordinator/backend/internal/peer"
	"github.com/codehub/gateway/coordinator/dialer"
)

// connectLimit bounds the time to connect, including all handshakes.
const connectLimit = 10 * time.Second

// limits end a connection within seconds after the cluster has disappeared. A watch may be silent for a long time, and
// its silence must mean that no object has changed.
var limits = dialer.Limits{
	Connect: 5 * time.Second, Idle: 3 * time.Second, Interval: time.Second, Count: 3, Unacknowledged: 6 * time.Second,
}

// within bounds the time that dial takes.
func within(dial peer.Dial) peer.Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, connectLimit)
		defer cancel()
		return dial(ctx, network, addr)
	}
}

// through returns a dial through the proxy that find returns for the cluster, if any. The proxy forwards connections,
// so that each connection ends at one cluster.
func through(dial peer.Dial, find func(*http.Request) (*url.URL, error), cluster *url.URL) (peer.Dial, error) {
	at, err := find(&http.Request{URL: cluster})
	if err != nil {
		return nil, fmt.Errorf("reading the proxy's address: %w", err)
	}
	if at == nil {
		return dial, nil
	}
	switch at.Scheme {
	case "http":
		return tunnel(dial, at, "80"), nil
	case "https":
		secured := peer.Secure(dial, func() (*tls.Config, error) {
			return &tls.Config{NextProtos: []string{"http/1.1"}}, nil
		})
		return tunnel(secured, at, "443"), nil
	case "socks5", "socks5h":
		d, err := proxy.FromURL(at, forward(dial))
		if err != nil {
			return nil, fmt.Errorf("reading the proxy's address: %w", err)
		}
		return d.(proxy.ContextDialer).DialContext, nil
	}
	return nil, fmt.Errorf("the proxy %s: only http, https and socks5 are known", at.Redacted())
}

// tunnel returns a dial that asks an HTTP proxy for a connection.
func tunnel(dial peer.Dial, at *url.URL, port string) peer.Dial {
	host := net.JoinHostPort(at.Hostname(), cmp.Or(at.Port(), port))
	return func(ctx context.Context, network, addr string) (_ net.Conn, err error) {
		c, err := dial(ctx, network, host)
		if err != nil {
			return nil, fmt.Errorf("connecting to the proxy: %w", err)
		}
		defer func() {
			if err != nil {
				c.Close()
				err = fmt.Errorf("asking the proxy %s for a connection: %w", at.Host, err)
			}
		}()
		stop := context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })
		defer stop()
		q := &http.Request{
			Method: http.MethodConnect, URL: &url.URL{Opaque: addr}, Host: addr, Header: make(http.Header),
		}
		if at.User != nil {
			password, _ := at.User.Password()
			q.SetBasicAuth(at.User.Username(), password)
			q.Header["Proxy-Authorization"] = q.Header["Authorization"]
			q.Header.Del("Authorization")
		}
		if err := q.Write(c); err != nil {
			return nil, err
		}
		r := bufio.NewReader(c)
		resp, err := http.ReadResponse(r, q)
		if err != nil {
			return nil, err
		}
		if resp.StatusCode != http.StatusOK {
			return nil, fmt.Errorf("it answers %s", resp.Status)
		}
		if r.Buffered() > 0 {
			return nil, fmt.Errorf("it sends data before the request")
		}
		if !stop() {
			return nil, ctx.Err()
		}
		return c, nil
	}
}

// forward is a dial with the interface of package proxy.
type forward peer.Dial

// Dial implements [proxy.Dialer].
func (f forward) Dial(network, addr string) (net.Conn, error) {
	return f(context.Background(), network, addr)
}

// DialContext implements [proxy.ContextDialer].
func (f forward) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	return f(ctx, network, addr)
}
