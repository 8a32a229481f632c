package api_test

import (
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/codehub/gateway/caddymodule/api"
)

func TestPagesNeedASession(t *testing.T) {
	in := newHarness(t)
	c := in.anyone()
	if a := c.do("GET", "/", nil); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/login" {
		t.Errorf("got status %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	login := c.do("GET", "/login?return=/w/x/%3Fa=b", nil)
	if login.StatusCode != 200 || !strings.Contains(string(login.body), `data-return="/w/x/?a=b"`) {
		t.Errorf("got status %d: %s", login.StatusCode, login.body)
	}
	ann := in.signedIn("ann")
	dashboard := ann.do("GET", "/", nil)
	if dashboard.StatusCode != 200 || !strings.Contains(string(dashboard.body), `<span id="user">ann</span>`) {
		t.Errorf("got status %d: %s", dashboard.StatusCode, dashboard.body)
	}
	for _, a := range []answer{login, dashboard} {
		csp := a.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || a.Header.Get("Cache-Control") != "no-store" ||
			a.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("got %v", a.Header)
		}
	}
	if a := ann.do("GET", "/login?return=/w/x/", nil); a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/w/x/" {
		t.Errorf("got status %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
}

func TestSignInReturnsToThisHostOnly(t *testing.T) {
	in := newHarness(t)
	ann := in.signedIn("ann")
	for _, to := range []string{
		"https://evil.example/", "//evil.example/", `/\evil.example/`, `\\evil.example`, "/\t/evil.example", "javascript:alert(1)", "evil", "",
	} {
		a := ann.do("GET", "/login?return="+url.QueryEscape(to), nil)
		if a.StatusCode != http.StatusSeeOther || a.Header.Get("Location") != "/" {
			t.Errorf("%q: status %d to %q", to, a.StatusCode, a.Header.Get("Location"))
		}
	}
}

// Every asset that the pages name exists and is cached forever, and nothing comes
// from other hosts or is inline, which the policy would forbid.
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
			a := ann.do("GET", m[1], nil)
			if a.StatusCode != 200 || !strings.Contains(a.Header.Get("Cache-Control"), "immutable") || a.Header.Get("Content-Type") == "" {
				t.Errorf("%s: status %d, %v", m[1], a.StatusCode, a.Header)
			}
			follow(string(a.body))
		}
	}
	inline := regexp.MustCompile(`(?i)<script[^>]*>[^<]|<style|\sstyle=|\son[a-z]+=|https?://`)
	for _, page := range []answer{ann.do("GET", "/", nil), in.anyone().do("GET", "/login", nil)} {
		follow(string(page.body))
		if found := inline.FindString(string(page.body)); found != "" {
			t.Errorf("the page holds %q", found)
		}
	}
	if len(seen) != 5 {
		t.Errorf("the pages use %v, want the 5 assets", seen)
	}
	if a := ann.do("GET", "/assets/style.css", nil); a.StatusCode != 404 {
		t.Errorf("an asset without its hash: status %d", a.StatusCode)
	}
}

// Both languages have the same texts.
func TestTextsAreTranslated(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("static/text.js")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n  en: {")
	english, rest, _ := strings.Cut(rest, "\n  ko: {")
	korean, _, _ := strings.Cut(rest, "\n};")
	key := regexp.MustCompile(`(?m)(?:^\s+|[{,] )"?([a-zA-Z_-]+)"?:`)
	names := func(s string) (out []string) {
		for _, m := range key.FindAllStringSubmatch(s, -1) {
			out = append(out, m[1])
		}
		return out
	}
	if a, b := strings.Join(names(english), " "), strings.Join(names(korean), " "); a != b || len(names(english)) < 60 {
		t.Errorf("English has\n%s\nKorean has\n%s", a, b)
	}
}

func TestTicketForAWorkspacesOwnHost(t *testing.T) {
	in := newHarness(t, func(o *api.Options) { o.WorkspaceURL = api.HostURL })
	ann, bob := in.signedIn("ann"), in.signedIn("bob")
	w := ann.create("one")
	id := w["id"].(string)
	if want := "http://ws-" + id + ".localhost:8080/"; w["url"] != want {
		t.Errorf("the address is %v, want %s", w["url"], want)
	}
	path := "/auth/ticket?workspace=" + id + "&return=" + url.QueryEscape("/a?b=c")
	a := in.anyone().do("GET", path, nil)
	if want := "/login?return=" + url.QueryEscape(path); a.StatusCode != 303 || a.Header.Get("Location") != want {
		t.Errorf("not signed in: status %d to %q, want %q", a.StatusCode, a.Header.Get("Location"), want)
	}
	if a := bob.do("GET", path, nil); a.StatusCode != 404 {
		t.Errorf("somebody else's: status %d", a.StatusCode)
	}
	if a := ann.do("GET", "/auth/ticket?workspace=../x", nil); a.StatusCode != 404 {
		t.Errorf("no id: status %d", a.StatusCode)
	}
	a = ann.do("GET", path, nil)
	to, err := url.Parse(a.Header.Get("Location"))
	if err != nil || a.StatusCode != 303 || to.Host != "ws-"+id+".localhost:8080" || to.Path != "/.codehub/ticket" || to.Query().Get("return") != "/a?b=c" {
		t.Fatalf("status %d to %q", a.StatusCode, a.Header.Get("Location"))
	}
	if a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("Referrer-Policy") != "no-referrer" {
		t.Errorf("got %v", a.Header)
	}
	a = ann.do("GET", "/auth/ticket?workspace="+id+"&return=//evil.example", nil)
	if to, _ := url.Parse(a.Header.Get("Location")); to.Query().Get("return") != "/" {
		t.Errorf("it returns to %q", to)
	}
}

// While the database is away, a user whose session is not in memory must not be taken
// for signed out: that would lead to a sign-in page that cannot work either.
func TestPagesWhilePostgreSQLIsAway(t *testing.T) {
	in := newHarness(t)
	ann, forgotten := in.signedIn("ann"), in.signedIn("bob")
	if a := ann.do("GET", "/", nil); a.StatusCode != 200 {
		t.Fatalf("status %d: %s", a.StatusCode, a.body)
	}
	forgotten.cookie = flip(forgotten.cookie) // well formed, never seen
	in.store.Close()
	if a := ann.do("GET", "/", nil); a.StatusCode != 200 {
		t.Errorf("a known session: status %d: %s", a.StatusCode, a.body)
	}
	for _, path := range []string{"/", "/login"} {
		if a := forgotten.do("GET", path, nil); a.StatusCode != 503 || !strings.HasPrefix(string(a.body), "error page") {
			t.Errorf("%s: status %d: %s", path, a.StatusCode, a.body)
		}
	}
	forgotten.do("GET", "/api/v1/auth/session", nil).problem(t, 503, "unavailable")
}

// flip changes a token's first character.
func flip(token string) string {
	if strings.HasPrefix(token, "A") {
		return "B" + token[1:]
	}
	return "A" + token[1:]
}
