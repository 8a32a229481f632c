package api_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/caddymodule/internal/api"
	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

func TestPagesNeedASession(t *testing.T) {
	in := newHarness(t)
	c := in.anyone()
	if a := c.Do("GET", "/", nil); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/login" {
		t.Errorf("got status %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	login := c.Do("GET", "/login?return=/w/x/%3Fa=b", nil)
	if login.StatusCode != 200 || !strings.Contains(string(login.Text), `data-return="/w/x/?a=b"`) {
		t.Errorf("got status %d: %s", login.StatusCode, login.Text)
	}
	ann := in.signedIn("ann")
	dashboard := ann.Do("GET", "/", nil)
	if dashboard.StatusCode != 200 || !strings.Contains(string(dashboard.Text), `<span id="user">ann</span>`) {
		t.Errorf("got status %d: %s", dashboard.StatusCode, dashboard.Text)
	}
	for _, a := range []apitest.Reply{login, dashboard} {
		csp := a.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || a.Header.Get("Cache-Control") != "no-store" ||
			a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("got %v", a.Header)
		}
	}
	if a := ann.Do("GET", "/login?return=/w/x/", nil); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/w/x/" {
		t.Errorf("got status %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
}

func TestSignInReturnsToThisHostOnly(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	for _, to := range []string{
		"https://evil.example/", "//evil.example/", `/\evil.example/`, `\\evil.example`, "/\t/evil.example", "javascript:alert(1)", "evil", "",
	} {
		a := ann.Do("GET", "/login?return="+url.QueryEscape(to), nil)
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
			t.Errorf("%q: status %d to %q", to, a.StatusCode, a.Header.Get("Location"))
		}
	}
}

// Every asset that the pages name exists and is cached forever. Nothing comes from other hosts, and nothing is inline
// except the one script that the policy allows.
func TestPagesAndAssetsFitTogether(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	seen := make(map[string]bool)
	var follow func(body string)
	follow = func(body string) {
		for _, m := range regexp.MustCompile(`"(/assets/[^"]*)"`).FindAllStringSubmatch(body, -1) {
			if seen[m[1]] {
				continue
			}
			seen[m[1]] = true
			a := ann.Do("GET", m[1], nil)
			if a.StatusCode != 200 || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") || a.Header.Get("Content-Type") == "" {
				t.Errorf("%s: status %d, %v", m[1], a.StatusCode, a.Header)
			}
			follow(string(a.Text))
		}
	}
	boot := regexp.MustCompile(`<script data-src="/assets/[^"]+">(?s:(.*?))</script>`)
	inline := regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|https?://`)
	for _, page := range []apitest.Reply{ann.Do("GET", "/", nil), in.anyone().Do("GET", "/login", nil)} {
		follow(string(page.Text))
		found := boot.FindSubmatch(page.Text)
		if found == nil {
			t.Fatalf("the page loads no script: %s", page.Text)
		}
		sum := sha256.Sum256(found[1])
		if policy := page.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "script-src 'self' 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"';") {
			t.Errorf("the policy %q is not one of its script", policy)
		}
		page.Text = boot.ReplaceAll(page.Text, nil)
		if found := inline.FindString(string(page.Text)); found != "" {
			t.Errorf("the page holds %q", found)
		}
	}
	if len(seen) != 4 {
		t.Errorf("the pages use %v, want 4 assets", seen)
	}
	if a := ann.Do("GET", "/assets/style.css", nil); a.StatusCode != 404 {
		t.Errorf("an asset without its hash: status %d", a.StatusCode)
	}
}

func TestTicketForAWorkspacesOwnHost(t *testing.T) {
	in := newHarness(t, func(o *api.Options) { o.Site = site.New(site.Options{MainHost: apitest.Host, PerHost: true}) })
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	w := ann.Create("one")
	id := w["id"].(string)
	if want := "http://ws-" + id + ".localhost:8080/"; w["url"] != want {
		t.Errorf("the address is %v, want %s", w["url"], want)
	}
	asked := "/auth/ticket?workspace=" + id + "&return=" + url.QueryEscape("/a?b=c")
	if a := ann.Do("GET", asked, nil); a.StatusCode != 303 || a.Header.Get("Location") != "http://ws-"+id+".localhost:8080/a?b=c" {
		t.Errorf("not by the workspace's host: status %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	hash, _ := auth.BrowserHash(auth.NewBrowserSecret())
	path := asked + "&browser=" + hash
	a := in.anyone().Do("GET", path, nil)
	if want := "/login?return=" + url.QueryEscape(path); a.StatusCode != 303 || a.Header.Get("Location") != want {
		t.Errorf("not signed in: status %d to %q, want %q", a.StatusCode, a.Header.Get("Location"), want)
	}
	if a := bob.Do("GET", path, nil); a.StatusCode != 404 {
		t.Errorf("somebody else's: status %d", a.StatusCode)
	}
	if a := ann.Do("GET", "/auth/ticket?workspace=../x", nil); a.StatusCode != 404 {
		t.Errorf("no id: status %d", a.StatusCode)
	}
	a = ann.Do("GET", path, nil)
	to, err := url.Parse(a.Header.Get("Location"))
	if err != nil || a.StatusCode != 303 || to.Host != "ws-"+id+".localhost:8080" || to.Path != "/.codehub/ticket" || to.Query().Get("return") != "/a?b=c" {
		t.Fatalf("status %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("got %v", a.Header)
	}
	a = ann.Do("GET", "/auth/ticket?workspace="+id+"&return=//evil.example&browser="+hash, nil)
	if to, _ := url.Parse(a.Header.Get("Location")); to.Query().Get("return") != "/" {
		t.Errorf("it returns to %q", to)
	}
}

// While the database is down, a user whose session is not in memory must not be treated as signed
// out: the sign-in page would not work either.
func TestPagesWhilePostgreSQLIsAway(t *testing.T) {
	in := newHarness(t)
	ann, forgotten := in.signedIn("ann"), in.signedIn("bob")
	if a := ann.Do("GET", "/", nil); a.StatusCode != 200 {
		t.Fatalf("status %d: %s", a.StatusCode, a.Text)
	}
	forgotten.Cookie = flip(forgotten.Cookie) // well formed, never seen
	in.store.Close()
	if a := ann.Do("GET", "/", nil); a.StatusCode != 200 {
		t.Errorf("a known session: status %d: %s", a.StatusCode, a.Text)
	}
	for _, path := range []string{"/", "/login"} {
		for lang, want := range map[string]string{"en": "tell an administrator", "ko": "관리자에게 알리세요"} {
			a := forgotten.Do("GET", path, nil, "Accept-Language: "+lang)
			if a.StatusCode != 503 || a.Header.Get("Retry-After") == "" || !strings.Contains(string(a.Text), want) {
				t.Errorf("%s in %s: status %d, %v: %s", path, lang, a.StatusCode, a.Header, a.Text)
			}
		}
	}
	forgotten.Do("GET", "/api/v1/auth/session", nil).Problem(t, 503, "unavailable")
}

// An outage of the database and its end are logged once each, however many requests are affected. Requests that are
// answered from memory during the outage do not count as its end.
func TestAnOutageOfTheDatabaseIsLoggedOnce(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	in := newHarness(t, func(o *api.Options) { o.Logger = zap.New(core) })
	ann := in.signedIn("ann")
	path := "/api/v1/workspaces/" + ann.Create("one")["id"].(string)
	write := func() apitest.Reply { return ann.Do("PATCH", path, map[string]any{"memo": "changed"}) }
	for range 2 {
		in.exec("ALTER DATABASE " + pgx.Identifier{in.db.Config().Database}.Sanitize() + " SET default_transaction_read_only = on")
		in.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		for write().StatusCode != 503 {
			if t.Context().Err() != nil {
				t.Fatal("a database that takes no changes is not 503")
			}
		}
		for range 3 {
			write().Problem(t, 503, "unavailable")
			if a := ann.Do("GET", "/api/v1/auth/session", nil); a.StatusCode != 200 {
				t.Errorf("a known session: status %d", a.StatusCode)
			}
		}
		if lines := logs.TakeAll(); len(lines) != 1 || lines[0].Level != zap.ErrorLevel || !strings.Contains(lines[0].Message, "takes no changes") {
			t.Errorf("logged: %v", lines)
		}
		in.exec("ALTER DATABASE " + pgx.Identifier{in.db.Config().Database}.Sanitize() + " RESET default_transaction_read_only")
		in.exec("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()")
		for write().StatusCode == 503 {
			if t.Context().Err() != nil {
				t.Fatal("a database that takes changes again is 503")
			}
		}
		if lines := logs.TakeAll(); len(lines) != 1 || !strings.Contains(lines[0].Message, "answered again") {
			t.Errorf("its end is logged: %v", lines)
		}
	}
}

// flip changes a token's first character.
func flip(token string) string {
	if strings.HasPrefix(token, "A") {
		return "B" + token[1:]
	}
	return "A" + token[1:]
}
