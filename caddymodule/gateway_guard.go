package codehub

import (
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"
)

// problemUpstream is a workspace whose application broke off without an answer.
var problemUpstream = kind("no-answer", "The workspace gave no answer", http.StatusBadGateway)

// foreign reports whether a page of another origin makes a request that acts with
// the visitor's rights: a WebSocket handshake, or a method that changes something.
// SameSite cookies do not stop it, because the hosts of all workspaces are the same
// site. Programs send no Origin; what they do is their own wish.
func foreign(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace:
		if !isWebSocket(r) {
			return false
		}
	}
	switch r.Header.Get("Sec-Fetch-Site") {
	case "same-origin":
		// Only a browser can say so. Pages without a referrer send the Origin "null"
		// with their own forms, too.
		return false
	case "same-site", "cross-site":
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return true
	}
	if sameHost(u, r.Host) {
		return false
	}
	trusted, _ := caddyhttp.GetVar(r.Context(), caddyhttp.TrustedProxyVarKey).(bool)
	return !trusted || !sameHost(u, r.Header.Get("X-Forwarded-Host"))
}

// sameHost reports whether host is that of the origin. The port that goes without
// saying may be said.
func sameHost(origin *url.URL, host string) bool {
	port := map[string]string{"http": "80", "https": "443"}[origin.Scheme]
	return port != "" && strings.EqualFold(withPort(origin.Host, port), withPort(host, port))
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

// guardedWriter keeps a workspace from giving the browser what is the gateway's to
// give, and notes whether an answer has begun.
type guardedWriter struct {
	caddyhttp.ResponseWriterWrapper
	prefix string // of the workspace's paths
	begun  bool
}

func newGuardedWriter(w http.ResponseWriter, prefix string) *guardedWriter {
	return &guardedWriter{ResponseWriterWrapper: caddyhttp.ResponseWriterWrapper{ResponseWriter: w}, prefix: prefix}
}

// WriteHeader sends the header without what is not the workspace's to say.
// Informational answers may come before the one that counts.
func (g *guardedWriter) WriteHeader(status int) {
	if !g.begun {
		cleanAnswer(g.Header(), g.prefix)
		g.begun = status >= 200 || status == http.StatusSwitchingProtocols
	}
	g.ResponseWriter.WriteHeader(status)
}

func (g *guardedWriter) begin() {
	if !g.begun {
		g.WriteHeader(http.StatusOK)
	}
}

// Write begins the answer, if it has not.
func (g *guardedWriter) Write(p []byte) (int, error) {
	g.begin()
	return g.ResponseWriter.Write(p)
}

// ReadFrom begins the answer, if it has not.
func (g *guardedWriter) ReadFrom(r io.Reader) (int64, error) {
	g.begin()
	return g.ResponseWriterWrapper.ReadFrom(r)
}

// FlushError begins the answer, if it has not.
func (g *guardedWriter) FlushError() error {
	g.begin()
	return http.NewResponseController(g.ResponseWriter).Flush()
}

// cleanAnswer removes what would sign the visitor out, or in as somebody else, and
// keeps service workers of a workspace below its own paths: one for the whole host
// would take over the pages of the gateway and of every other workspace.
func cleanAnswer(h http.Header, prefix string) {
	if cookies := h["Set-Cookie"]; len(cookies) > 0 {
		kept := cookies[:0:0]
		for _, c := range cookies {
			if !setsOwnCookie(c) {
				kept = append(kept, c)
			}
		}
		switch len(kept) {
		case len(cookies):
		case 0:
			delete(h, "Set-Cookie")
		default:
			h["Set-Cookie"] = kept
		}
	}
	delete(h, "Clear-Site-Data")
	if _, ok := h["Service-Worker-Allowed"]; ok && prefix != "" {
		h["Service-Worker-Allowed"] = []string{prefix + "/"}
	}
}

// setsOwnCookie reports whether a Set-Cookie line sets one of the gateway's
// cookies. A cookie without a name is sent back as its value alone, which may look
// like one with a name.
func setsOwnCookie(line string) bool {
	pair, _, _ := strings.Cut(line, ";")
	return ownCookie(strings.TrimLeft(pair, "= \t"))
}

// broken answers a request whose workspace broke off, or took too long, before it
// began to answer.
func (g *Gateway) broken(w http.ResponseWriter, r *http.Request, v visit, err error) error {
	var status caddyhttp.HandlerError
	if !errors.As(err, &status) || status.StatusCode != http.StatusBadGateway && status.StatusCode != http.StatusGatewayTimeout {
		return err
	}
	g.logger.Warn("a workspace gave no answer", zap.String("workspace", string(v.id)), zap.Error(err))
	if v.who == navigation {
		return g.messagePage(w, r, status.StatusCode, noAnswerMessage(g, r, v))
	}
	p := problemUpstream.with("Its application broke off the connection.")
	if p.Status = status.StatusCode; p.Status == http.StatusGatewayTimeout {
		p.Detail = "Its application took too long."
	}
	p.write(w)
	return nil
}

// Interface guards.
var (
	_ io.ReaderFrom                   = (*guardedWriter)(nil)
	_ interface{ FlushError() error } = (*guardedWriter)(nil)
)
