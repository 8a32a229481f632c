package codehub

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/devenv"
)

// oidcHost is the main host that the provider knows: it sends browsers back to this host.
const oidcHost = "://" + apitest.Host + "/auth/oidc/callback"

// withProvider is an installation with a real identity provider.
func withProvider(t *testing.T, settings map[string]any) (*installation, *devenv.Provider) {
	t.Helper()
	return withProviderUnder(t, "http", settings)
}

func withProviderUnder(t *testing.T, scheme string, settings map[string]any) (*installation, *devenv.Provider) {
	t.Helper()
	provider := devenv.OIDC(t, scheme+oidcHost,
		devenv.ProviderUser{ID: "1", Username: "ann", Password: testPassword, Group: "operators"},
		devenv.ProviderUser{ID: "2", Username: "bob", Password: testPassword, Group: "developers"},
		devenv.ProviderUser{ID: "3", Username: "eve", Password: testPassword, Group: "visitors"})
	in := install(t)
	oidc := map[string]any{
		"issuer": provider.Issuer, "client_id": provider.ClientID, "client_secret": provider.ClientSecret,
		"admin_groups": "operators", "allowed_groups": "developers",
	}
	for k, v := range settings {
		oidc[k] = v
	}
	in.app["oidc"] = oidc
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	return in, provider
}

// atProvider begins a sign-in and goes through the provider's pages. It returns the callback address to which the
// provider sends the browser back, and the browser's cookie.
func (in *installation) atProvider(name string, header ...string) (callback *url.URL, cookie string) {
	in.t.Helper()
	begun := in.anyone().Do("GET", "/auth/oidc/start?return=/w/x?a=b", nil, header...)
	if begun.StatusCode != 303 || len(begun.Cookies()) != 1 {
		in.t.Fatalf("beginning: %d %v %s", begun.StatusCode, begun.Cookies(), begun.Text)
	}
	c := begun.Cookies()[0]
	if !c.HttpOnly || c.MaxAge <= 0 || c.SameSite != http.SameSiteLaxMode {
		in.t.Errorf("the cookie is %v", c)
	}
	jar, _ := cookiejar.New(nil)
	browser := &http.Client{Jar: jar, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.Contains(r.URL.String(), oidcHost) {
			return http.ErrUseLastResponse
		}
		return nil
	}}
	form, err := browser.Get(begun.Header.Get("Location"))
	if err != nil {
		in.t.Fatal(err)
	}
	text, _ := io.ReadAll(form.Body)
	_ = form.Body.Close()
	id := regexp.MustCompile(`name="id" value="([^"]*)"`).FindSubmatch(text)
	if id == nil {
		in.t.Fatalf("no form of the provider: %s %s", form.Status, text)
	}
	back, err := browser.PostForm(form.Request.URL.Scheme+"://"+form.Request.URL.Host+"/login/username",
		url.Values{"id": {string(id[1])}, "username": {name}, "password": {testPassword}})
	if err != nil {
		in.t.Fatal(err)
	}
	_ = back.Body.Close()
	if callback, err = back.Location(); err != nil {
		in.t.Fatal(err)
	}
	return callback, c.Name + "=" + c.Value
}

// throughProvider signs in, and returns the answer of the callback.
func (in *installation) throughProvider(name string) (apitest.Reply, *apitest.Client) {
	in.t.Helper()
	callback, cookie := in.atProvider(name)
	c := in.anyone()
	got := c.Do("GET", callback.RequestURI(), nil, "Cookie: "+cookie, "User-Agent: a browser")
	for _, set := range got.Cookies() {
		if set.Name == "session" {
			c.Cookie = set.Value
		}
	}
	return got, c
}

func TestSignInThroughAProvider(t *testing.T) {
	in, provider := withProvider(t, nil)
	if _, err := in.coordinator().Auth.AddUser(t.Context(), "bob", testPassword, "admin"); err != nil {
		t.Fatal(err)
	}
	got, ann := in.throughProvider("ann")
	if got.StatusCode != 303 || got.Header.Get("Location") != "/w/x?a=b" || ann.Cookie == "" {
		t.Fatalf("%d %v %s", got.StatusCode, got.Header, got.Text)
	}
	user := ann.Do("GET", "/api/v1/auth/session", nil).Object(t)
	if user["username"] != "ann" || user["role"] != "admin" {
		t.Errorf("an administrator of the provider is %v", user)
	}
	// A name that a user has here is that user's.
	_, bob := in.throughProvider("bob")
	if got := bob.Do("GET", "/api/v1/auth/session", nil).Object(t); got["username"] != "bob-2" || got["role"] != "user" {
		t.Errorf("bob of the provider is %v", got)
	}
	// After the first sign-in, the subject identifies the user, even if the user has been renamed. The role follows the
	// groups.
	if _, err := in.db.Exec(t.Context(), "UPDATE users SET username = 'renamed', role = 'user' WHERE username = 'ann'"); err != nil {
		t.Fatal(err)
	}
	_, ann = in.throughProvider("ann")
	if again := ann.Do("GET", "/api/v1/auth/session", nil).Object(t); again["user_id"] != user["user_id"] || again["role"] != "admin" || again["username"] != "renamed" {
		t.Errorf("the second sign-in gives %v", again)
	}
	if got, eve := in.throughProvider("eve"); got.StatusCode != 403 || eve.Cookie != "" || !strings.Contains(string(got.Text), "groups") {
		t.Errorf("a user of no group that may: %d %s", got.StatusCode, got.Text)
	}
	out := ann.Do("POST", "/api/v1/auth/logout", nil).Object(t)
	if to, _ := out["redirect"].(string); !strings.HasPrefix(to, provider.Issuer) || !strings.Contains(to, "client_id=codehub") {
		t.Errorf("signing out leads to %v", out)
	}
	ann.Do("GET", "/api/v1/auth/session", nil).Problem(t, 401, "not-signed-in")
	if err := in.coordinator().Auth.SetDisabled(t.Context(), "renamed", true); err != nil {
		t.Fatal(err)
	}
	if got, ann := in.throughProvider("ann"); got.StatusCode != 403 || ann.Cookie != "" || !strings.Contains(string(got.Text), "disabled") {
		t.Errorf("a disabled user: %d %s", got.StatusCode, got.Text)
	}
}

// A sign-in can be completed only once, and only in the browser that began it.
func TestAProvidersAnswerIsGoodInOneBrowserOnly(t *testing.T) {
	in, _ := withProvider(t, map[string]any{"create_users": "false"})
	callback, cookie := in.atProvider("bob")
	_, another := in.atProvider("bob")
	for what, header := range map[string]string{"no cookie": "X-None: 1", "another browser's": "Cookie: " + another} {
		got := in.anyone().Do("GET", callback.RequestURI(), nil, header)
		if got.StatusCode != 400 || len(got.Cookies()) != 1 || !strings.Contains(string(got.Text), "another browser") {
			t.Errorf("%s: %d %v %s", what, got.StatusCode, got.Cookies(), got.Text)
		}
	}
	got := in.anyone().Do("GET", callback.RequestURI(), nil, "Cookie: "+cookie, "Accept-Language: ko")
	if got.StatusCode != 403 || !strings.Contains(string(got.Text), "계정이 없습니다") {
		t.Errorf("a user who must not be created: %d %s", got.StatusCode, got.Text)
	}
	if got := in.anyone().Do("GET", callback.RequestURI(), nil, "Cookie: "+cookie); got.StatusCode != 502 {
		t.Errorf("a code that is used twice: %d %s", got.StatusCode, got.Text)
	}
}

// If the provider cannot be reached, the server still starts, and users with a password can sign in. The provider is
// asked again later.
func TestAProviderThatIsAway(t *testing.T) {
	in, provider := withProvider(t, map[string]any{"issuer": "http://127.0.0.1:1"})
	if got := in.anyone().Do("GET", "/auth/oidc/start", nil); got.StatusCode != 502 || !strings.Contains(string(got.Text), "cannot be reached") {
		t.Errorf("%d %s", got.StatusCode, got.Text)
	}
	page := in.anyone().Do("GET", "/login?return=/x", nil)
	for _, want := range []string{`id="password"`, `href="/auth/oidc/start?return=%2Fx"`} {
		if !strings.Contains(string(page.Text), want) {
			t.Errorf("the sign-in page lacks %s:\n%s", want, page.Text)
		}
	}
	in.signedIn("admin")
	in.app["oidc"].(map[string]any)["issuer"] = provider.Issuer
	in.app["sign_in"] = map[string]any{"password": "false"}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	if got, bob := in.throughProvider("bob"); bob.Cookie == "" {
		t.Errorf("%d %s", got.StatusCode, got.Text)
	}
	in.anyone().Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": testPassword}).Problem(t, 403, "passwords-off")
	if page := in.anyone().Do("GET", "/login", nil); strings.Contains(string(page.Text), `id="password"`) {
		t.Errorf("the sign-in page asks for a password:\n%s", page.Text)
	}
}

// Behind a proxy that ends TLS, cookies have the prefix __Host-. A sign-in ends the previous session. If a page has
// planted a second cookie with the name of the sign-in's cookie, the sign-in fails.
func TestSignInThroughAProviderUnderTLS(t *testing.T) {
	in, _ := withProviderUnder(t, "https", nil)
	in.server = map[string]any{"trusted_proxies_unix": true, "client_ip_headers": []string{"X-Forwarded-For"}}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	const tls = "X-Forwarded-Proto: https"
	signIn := func(cookies string) (session string) {
		t.Helper()
		callback, attempt := in.atProvider("bob", tls)
		if !strings.HasPrefix(attempt, "__Host-codehub_oidc=") {
			t.Errorf("the cookie is %s", attempt)
		}
		got := in.anyone().Do("GET", callback.RequestURI(), nil, tls, "Cookie: "+attempt+cookies)
		for _, c := range got.Cookies() {
			if c.Name == "__Host-session" && c.Secure {
				session = c.Value
			}
		}
		if got.StatusCode != 303 || session == "" {
			t.Fatalf("%d %v %s", got.StatusCode, got.Cookies(), got.Text)
		}
		return session
	}
	status := func(session string) int {
		return in.anyone().Do("GET", "/api/v1/auth/session", nil, tls, "Cookie: __Host-session="+session).StatusCode
	}
	first := signIn("")
	second := signIn("; __Host-session=" + first)
	if status(first) != 401 || status(second) != 200 {
		t.Errorf("after another sign-in the first session gives %d, the second %d", status(first), status(second))
	}
	out := in.anyone().Do("POST", "/api/v1/auth/logout", nil, tls, "Cookie: __Host-session="+second)
	if c := out.Cookies(); len(c) != 1 || c[0].Name != "__Host-session" || c[0].MaxAge != -1 || status(second) != 401 {
		t.Errorf("signing out sets %v, and the session gives %d", c, status(second))
	}
	callback, attempt := in.atProvider("bob", tls)
	if got := in.anyone().Do("GET", callback.RequestURI(), nil, tls, "Cookie: "+attempt+"; "+attempt); got.StatusCode != 400 {
		t.Errorf("two cookies of the sign-in: %d", got.StatusCode)
	}
}

// The Host header of a request has no influence on where the provider sends the code, or on which requests are allowed.
func TestSignInThroughAProviderIsOfTheMainSite(t *testing.T) {
	in, _ := withProvider(t, nil)
	for _, path := range []string{"/auth/oidc/start", "/auth/oidc/callback?state=x&code=y"} {
		c := in.anyone()
		c.Host = "evil.example"
		if got := c.Do("GET", path, nil); got.StatusCode != 421 || len(got.Cookies()) != 0 {
			t.Errorf("%s at another host: %d %v", path, got.StatusCode, got.Cookies())
		}
		if got := in.anyone().Do("GET", path, nil, "Sec-Fetch-Site: cross-site", "Sec-Fetch-Mode: no-cors"); got.StatusCode != 403 {
			t.Errorf("%s from another origin: %d", path, got.StatusCode)
		}
	}
	c := in.anyone()
	c.Host = "localhost:1234" // this machine's own name
	begun := c.Do("GET", "/auth/oidc/start", nil)
	to, err := url.Parse(begun.Header.Get("Location"))
	if err != nil || to.Query().Get("redirect_uri") != "http"+oidcHost {
		t.Errorf("the provider is to send the browser to %s, %v", to, err)
	}
}
