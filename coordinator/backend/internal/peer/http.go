package peer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
)

// maxAnswer bounds an answer, in bytes.
const maxAnswer = 4 << 20

// Attach makes t dial through w. The caller must attach t before its first use. Attach turns off HTTP proxies in t,
// because a proxy would answer the question itself.
func (w *Watcher) Attach(t *http.Transport) {
	dial := t.DialContext
	if dial == nil {
		dial = new(net.Dialer).DialContext
	}
	t.Proxy = nil
	t.DialContext = w.Wrap(dial)
	if config := t.TLSClientConfig; config != nil {
		t.DialTLSContext = w.Wrap(Secure(dial, func() (*tls.Config, error) { return config, nil }))
	}
}

// Secure adds TLS to the connections of dial, with the current result of config.
func Secure(dial Dial, config func() (*tls.Config, error)) Dial {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		settings, err := config()
		if err != nil {
			return nil, err
		}
		raw, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		c := settings.Clone()
		if host, _, err := net.SplitHostPort(addr); err == nil && c.ServerName == "" {
			c.ServerName = host
		}
		secured := tls.Client(raw, c)
		if err := secured.HandshakeContext(ctx); err != nil {
			raw.Close()
			return nil, err
		}
		return secured, nil
	}
}

// RoundTrip sends an HTTP/1.1 request on a connection and reads the whole answer. If Close is set in the answer, the
// connection cannot be used for another request.
func RoundTrip(c net.Conn, q *http.Request) (*http.Response, error) {
	if err := q.Write(c); err != nil {
		return nil, err
	}
	r := bufio.NewReader(c)
	resp, err := http.ReadResponse(r, q)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(body))
	resp.Close = resp.Close || r.Buffered() > 0
	return resp, nil
}
