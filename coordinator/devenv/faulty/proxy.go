package faulty

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// The faults of a reverse proxy in front of the gateway.
const (
	// DropsUpgrade passes requests for a WebSocket on as ordinary ones.
	DropsUpgrade Fault = "drops Upgrade"
	// KeepsBack holds an answer back until it is complete.
	KeepsBack Fault = "keeps back"
	// ChangesHost sends the gateway's own name as the host, and does not forward the client's.
	ChangesHost Fault = "changes the host"
	// ChangesCookies lets pages read cookies.
	ChangesCookies Fault = "changes cookies"
	// SmallHeaders accepts at most 8 kB of headers.
	SmallHeaders Fault = "small headers"
	// SaysNothing does not forward the client's address.
	SaysNothing Fault = "says nothing"
	// Stranger connects from an address that the gateway does not trust.
	Stranger Fault = "stranger"
	// Redirects sends its clients somewhere else.
	Redirects Fault = "redirects"
)

// Proxy runs a reverse proxy on this machine in front of the server at target, with one fault, and returns its host and
// port. With a certificate it terminates TLS.
func Proxy(t testing.TB, target string, fault Fault, certificate *tls.Certificate) (host string) {
	t.Helper()
	to, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true}
	if fault == Stranger {
		transport.DialContext = (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).DialContext
	}
	t.Cleanup(transport.CloseIdleConnections)
	proxy := &httputil.ReverseProxy{
		Transport: transport, FlushInterval: -1,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(to)
			if fault != ChangesHost {
				r.Out.Host = r.In.Host
			}
			if fault != SaysNothing {
				r.SetXForwarded()
			}
			if fault == ChangesHost {
				r.Out.Header.Del("X-Forwarded-Host")
			}
		},
		ModifyResponse: func(res *http.Response) error { return spoil(res, fault) },
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case fault == Redirects:
			http.Redirect(w, r, "http://elsewhere.example"+r.URL.RequestURI(), http.StatusFound)
			return
		case fault == DropsUpgrade:
			r.Header.Del("Upgrade")
		case fault == SmallHeaders && len(r.Header.Get("Cookie")) > 8<<10:
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	if certificate != nil {
		server.TLS = &tls.Config{Certificates: []tls.Certificate{*certificate}}
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(func() {
		server.CloseClientConnections() // streams would keep it open
		server.Close()
	})
	return server.Listener.Addr().String()
}

// spoil changes an answer.
func spoil(res *http.Response, fault Fault) error {
	switch fault {
	case KeepsBack:
		if res.StatusCode == http.StatusSwitchingProtocols {
			return nil
		}
		body, err := io.ReadAll(res.Body)
		if err != nil {
			return err
		}
		res.Body = io.NopCloser(bytes.NewReader(body))
	case ChangesCookies:
		for i, c := range res.Header["Set-Cookie"] {
			res.Header["Set-Cookie"][i] = strings.ReplaceAll(c, "; HttpOnly", "")
		}
	}
	return nil
}
