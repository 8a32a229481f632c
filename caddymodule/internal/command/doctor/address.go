package doctor

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/codehub/gateway/caddymodule/internal/reach"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// answerLimit bounds one request to public_url.
	answerLimit = 5 * time.Second
	// expiresSoon is the remaining time at which a certificate should have been renewed.
	// Certificates of Let's Encrypt are renewed 30 days before they expire.
	expiresSoon = 7 * 24 * time.Hour
	// cookieRoom is the total size of cookies, in bytes, that proxies should pass on. Applications
	// in workspaces set their own cookies.
	cookieRoom = 32 << 10
	// nobody is the id of a workspace that does not exist.
	nobody = workspace.ID("00000000-0000-4000-8000-000000000000")
)

// visitor opens public_url as a browser does.
type visitor struct {
	public   *url.URL
	site     *site.Site
	database string
	client   *http.Client
}

// checkAddress opens public_url. If nothing answers, that is only a warning, because the server may not have been
// started yet. A wrong answer is a problem.
func (p patient) checkAddress(ctx context.Context) ([]check.Finding, error) {
	public, err := url.Parse(p.PublicURL)
	if err != nil || public.Host == "" {
		return []check.Finding{check.Warning("set public_url to the address that people open, such as https://codehub.example.com",
			"not checked: public_url is not set")}, nil
	}
	rows, err := p.identities(ctx)
	if err != nil {
		return nil, err
	}
	database := rows[store.ResourceDatabase].Identity
	if database == "" {
		return []check.Finding{check.Warning("start Caddy, and run doctor again",
			"not checked: nothing has been started with this database yet")}, nil
	}
	transport := &http.Transport{DisableKeepAlives: true, DialContext: dialLocal}
	defer transport.CloseIdleConnections()
	at := p.Options.Site
	v := visitor{
		public: public, database: database,
		site: site.New(site.Options{Domain: at.Domain, MainHost: p.MainHost, PerHost: at.PerHost, Scheme: public.Scheme}),
		client: &http.Client{
			Transport: transport, Timeout: answerLimit,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
	found, reached := v.main(ctx)
	if reached {
		found = append(found, v.socket(ctx)...)
		found = append(found, v.stream(ctx)...)
		found = append(found, v.cookies(ctx)...)
	}
	if at.PerHost {
		found = append(found, v.workspaceHost(ctx)...)
	}
	return found, nil
}

// dialLocal connects as browsers do, which resolve every name below localhost to this machine.
func dialLocal(ctx context.Context, network, address string) (net.Conn, error) {
	if host, port, err := net.SplitHostPort(address); err == nil && strings.HasSuffix(host, ".localhost") {
		address = net.JoinHostPort("localhost", port)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// ask sends a challenge to public_url.
func (v visitor) ask(ctx context.Context, header http.Header) (reach.Question, *http.Response, error) {
	question := reach.Ask(v.database)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.public.JoinPath(reach.Path).String(), nil)
	if err != nil {
		return question, nil, err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set(reach.Header, question.String())
	res, err := v.client.Do(r)
	return question, res, err
}

// main checks how a request arrives. It reports whether it has reached the installation.
func (v visitor) main(ctx context.Context) (found []check.Finding, reached bool) {
	question, res, err := v.ask(ctx, nil)
	if err != nil {
		return []check.Finding{v.unreachable(v.public.Host, err)}, false
	}
	defer res.Body.Close()
	if to := res.Header.Get("Location"); to != "" {
		return []check.Finding{check.Problem("write that address as public_url, or take the redirect away",
			"%s leads on to %s", v.public, elsewhere(v.public, to))}, false
	}
	var answer reach.Answer
	if json.NewDecoder(res.Body).Decode(&answer) != nil || !question.Proves(answer) {
		return []check.Finding{check.Problem("write the address of this installation as public_url, and let the proxy there lead to it; "+
			"an earlier release does not answer doctor",
			"at %s answers something else than this installation, with status %d", v.public, res.StatusCode)}, false
	}
	found = v.judge(answer)
	found = append(found, v.judgeCookie(res.Cookies())...)
	found = append(found, expiring(v.public.Host, res.TLS)...)
	if len(found) == 0 {
		found = []check.Finding{check.OK("%s leads here, and this machine counts as client %s there", v.public, answer.Client)}
	}
	return found, true
}

// elsewhere returns the host to which a redirect leads. The rest of the address may be long.
func elsewhere(from *url.URL, location string) string {
	to, err := from.Parse(location)
	if err != nil {
		return location
	}
	return to.Scheme + "://" + to.Host
}

// judge compares the received request with the sent one.
func (v visitor) judge(a reach.Answer) (found []check.Finding) {
	problem := func(remedy, format string, args ...any) {
		found = append(found, check.Problem(remedy, format, args...))
	}
	if !strings.EqualFold(a.Host, v.public.Host) {
		problem("let the proxy pass on the host: in nginx, proxy_set_header Host $http_host",
			"requests to %s arrive as requests to %s", v.public.Host, a.Host)
	} else if !a.Main {
		problem("give main_host and public_url the same host", "nobody can sign in at %s: elsewhere than at main_host the answer is 421",
			v.public)
	}
	if a.Scheme != v.public.Scheme {
		problem("write public_url "+a.Scheme+"://"+v.public.Host, "public_url is %s, and browsers arrive by %s", v.public, a.Scheme)
	}
	switch {
	case a.Forwarded == reach.ForwardedUntrusted:
		problem("name it in the option servers: trusted_proxies static ADDRESS, and trusted_proxies_strict; the log of Caddy has its address",
			"a proxy in front is not trusted: all who come through it count as client %s", a.Client)
	case a.Forwarded == reach.ForwardedNot && v.public.Scheme == "https" && !a.TLS:
		problem("let the proxy set X-Forwarded-For: in nginx, proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for",
			"a proxy in front ends TLS and does not say for whom it asks: all who come through it count as client %s", a.Client)
	}
	return found
}

// judgeCookie checks whether a cookie arrives as it was set.
func (v visitor) judgeCookie(cookies []*http.Cookie) []check.Finding {
	for _, c := range cookies {
		if c.Name != reach.Cookie {
			continue
		}
		if c.HttpOnly && c.SameSite == http.SameSiteLaxMode && c.Path == "/" && c.Domain == "" && c.Secure == (v.public.Scheme == "https") {
			return nil
		}
		return []check.Finding{check.Problem("take what rewrites cookies out of the proxy, such as proxy_cookie_path, proxy_cookie_domain "+
			"or proxy_cookie_flags of nginx", "cookies arrive changed: %s", c)}
	}
	return []check.Finding{check.Problem("let the proxy pass on Set-Cookie", "cookies do not arrive, so that nobody can sign in")}
}

// expiring warns about a certificate that should have been renewed.
func expiring(host string, state *tls.ConnectionState) []check.Finding {
	if state == nil || len(state.PeerCertificates) == 0 {
		return nil
	}
	if ends := state.PeerCertificates[0].NotAfter; time.Until(ends) < expiresSoon {
		return []check.Finding{check.Warning("see the log of what renews it", "the certificate of %s ends on %s", host, ends.Format(time.DateOnly))}
	}
	return nil
}

// unreachable explains a connection error.
func (v visitor) unreachable(host string, err error) check.Finding {
	var refused *tls.CertificateVerificationError
	if errors.As(err, &refused) {
		return check.Problem("give "+host+" a certificate that browsers trust; for names below the domain of workspaces, a wildcard certificate",
			"browsers refuse the certificate of %s: %v", host, refused.Err)
	}
	var wrapped *url.Error
	if errors.As(err, &wrapped) {
		err = wrapped.Err // without the address, which is in the text
	}
	return check.Warning("start Caddy; if it runs, check public_url, DNS and what stands in front of it",
		"%s does not answer this machine: %v", host, err)
}

// socket opens a WebSocket.
func (v visitor) socket(ctx context.Context) []check.Finding {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	question := reach.Ask(v.database)
	client := *v.client
	client.Timeout = 0 // it would also end the connection
	socket, _, err := websocket.Dial(ctx, v.public.JoinPath(reach.Path).String(), &websocket.DialOptions{
		HTTPClient: &client, HTTPHeader: http.Header{reach.Header: {question.String()}},
	})
	var answer reach.Answer
	if err == nil {
		defer socket.CloseNow()
		err = wsjson.Read(ctx, socket, &answer)
	}
	if err == nil && question.Proves(answer) {
		return nil
	}
	return []check.Finding{check.Problem("let the proxy pass on Upgrade and Connection: in nginx, proxy_http_version 1.1, "+
		"proxy_set_header Upgrade $http_upgrade and proxy_set_header Connection upgrade",
		"WebSockets do not get through, and editors and terminals need them: %v", err)}
}

// stream waits for the first event of a stream.
func (v visitor) stream(ctx context.Context) []check.Finding {
	_, res, err := v.ask(ctx, http.Header{"Accept": {"text/event-stream"}})
	if err == nil {
		defer res.Body.Close()
		_, err = bufio.NewReader(res.Body).ReadString('\n')
	}
	if err == nil {
		return nil
	}
	return []check.Finding{check.Problem("let the proxy pass on answers as they come: in nginx, proxy_buffering off",
		"event streams are kept back on their way, so that pages do not learn when a workspace has woken")}
}

// cookies sends as many cookies as applications in workspaces may set.
func (v visitor) cookies(ctx context.Context) []check.Finding {
	var all []string
	for size := 0; size < cookieRoom; size += 4000 {
		all = append(all, fmt.Sprintf("codehub_check%d=%s", size, strings.Repeat("x", 3980)))
	}
	_, res, err := v.ask(ctx, http.Header{"Cookie": {strings.Join(all, "; ")}})
	answer := ""
	if err == nil {
		defer res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return nil
		}
		answer = fmt.Sprintf(" with %d", res.StatusCode)
	}
	return []check.Finding{check.Warning("let the proxy take larger headers: in nginx, large_client_header_buffers 8 64k; in HAProxy, tune.bufsize 65536; "+
		"in Caddy, max_header_size 1MiB", "%d kB of cookies are refused%s: applications in workspaces may set as many, and their "+
		"users are locked out then", cookieRoom>>10, answer)}
}

// workspaceHost opens the host of a workspace that does not exist, which leads to the sign-in.
func (v visitor) workspaceHost(ctx context.Context) []check.Finding {
	at := v.site.Parse(&http.Request{Host: v.public.Host, URL: &url.URL{Path: "/"}})
	origin := at.WorkspaceOrigin(nobody)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, origin+"/", nil)
	if err != nil {
		return []check.Finding{check.Problem("correct domain", "%s is no address: %v", origin, err)}
	}
	r.Header.Set("Accept", "text/html")
	r.Header.Set("Sec-Fetch-Mode", "navigate")
	r.Header.Set("Sec-Fetch-Dest", "document")
	res, err := v.client.Do(r)
	var unknown *net.DNSError
	switch {
	case errors.As(err, &unknown):
		return nil // the row hosts reports it
	case err != nil:
		return []check.Finding{v.unreachable(r.URL.Host, err)}
	}
	defer res.Body.Close()
	if to := res.Header.Get("Location"); !strings.HasPrefix(to, at.MainOrigin()+site.TicketPath) {
		return []check.Finding{check.Problem("let every name below domain lead to this installation, under its own name",
			"at %s, the address of a workspace, answers something else than this installation, with status %d", origin, res.StatusCode)}
	}
	if found := expiring(r.URL.Host, res.TLS); found != nil {
		return found
	}
	return []check.Finding{check.OK("the addresses of workspaces, such as %s, lead here", origin)}
}
