package codehub

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/codehub/gateway/caddymodule/internal/api/apitest"
	"github.com/codehub/gateway/coordinator/wait"
)

// These are the hosts in the Caddyfiles of docs/sign-in.md.
const (
	shownHost    = "codehub.example.com"
	shownDomain  = "ws.example.com"
	bcryptOfTest = bcrypt.MinCost
)

// shown returns the Caddyfile in docs/sign-in.md that contains word. The Caddyfile must be the same in every language.
func shown(t *testing.T, word string) string {
	t.Helper()
	var found []string
	for _, file := range []string{"docs/sign-in.md", "docs/sign-in.ko.md"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range regexp.MustCompile("(?s)```caddyfile\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(block[1], word) {
				found = append(found, block[1])
			}
		}
	}
	if len(found) != 2 || adapt(t, found[0]) != adapt(t, found[1]) {
		t.Fatalf("the guides show %d Caddyfiles with %s, or different ones", len(found), word)
	}
	return found[0]
}

// use makes an installation run the settings and routes of a Caddyfile. It keeps the installation's own servers, and
// ignores the Caddyfile's certificates.
func (in *installation) use(caddyfile string) {
	in.t.Helper()
	var config struct {
		Apps struct {
			CodeHub map[string]any `json:"codehub"`
			HTTP    struct {
				Servers map[string]struct {
					Routes []map[string]any `json:"routes"`
				} `json:"servers"`
			} `json:"http"`
		} `json:"apps"`
	}
	if err := json.Unmarshal([]byte(adapt(in.t, caddyfile)), &config); err != nil {
		in.t.Fatal(err)
	}
	servers := in.app
	delete(servers, "main_host")
	delete(servers, "workspace_url")
	in.app = config.Apps.CodeHub
	maps.Copy(in.app, servers)
	in.routes = config.Apps.HTTP.Servers["srv0"].Routes
	if err := in.load(); err != nil {
		in.t.Fatal(err)
	}
}

// at returns a client of one of the hosts.
func (in *installation) at(host string) *apitest.Client {
	c := in.anyone()
	c.Host = host
	return c
}

// application starts an application as the running workspace of a user. The application answers with the request
// headers that have reached it. It returns the workspace's host.
func (in *installation) application(owner string) (host string) {
	in.t.Helper()
	app := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = r.Header.Write(w) }))
	in.t.Cleanup(app.Close)
	var id string
	if err := in.db.QueryRow(in.t.Context(), `
		UPDATE workspaces w SET phase = 'RUNNING', desired_state = 'RUNNING', operation = 'NONE', op_started_at = NULL, endpoint = $2
		FROM users u WHERE u.id = w.owner_user_id AND u.username = $1 RETURNING w.id::text`, owner, app.Listener.Addr().String()).Scan(&id); err != nil {
		in.t.Fatal(err)
	}
	return "ws-" + id + "." + shownDomain
}

func basic(name string) string {
	return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(name+":"+testPassword))
}

// TestBasicAuthOfTheGuide: with basic_auth as in the guide, the signed-in user is the one whose password Caddy has
// checked. This holds on every host, even if a client claims to be another user.
func TestBasicAuthOfTheGuide(t *testing.T) {
	hash, err := bcrypt.GenerateFromPassword([]byte(testPassword), bcryptOfTest)
	if err != nil {
		t.Fatal(err)
	}
	in := install(t)
	admin := in.signedIn("admin").Cookie
	in.use(regexp.MustCompile(`\$2a\$14\$\S+`).ReplaceAllLiteralString(shown(t, "basic_auth"), string(hash)))
	main := in.at(shownHost)
	for _, header := range []string{"X-None: 1", "Cookie: session=" + admin, "Remote-User: admin", "X-Auth-User: admin", "Authorization: Basic YWRtaW46eA=="} {
		for _, path := range []string{"/", "/api/v1/auth/session", "/login", "/health/coordinator"} {
			if got := main.Do("GET", path, nil, header); got.StatusCode != 401 || got.Header.Get("Www-Authenticate") == "" {
				t.Errorf("%s with %s: %d", path, header, got.StatusCode)
			}
		}
	}
	if got := main.Do("GET", "/health", nil); got.StatusCode != 200 {
		t.Errorf("/health: %d", got.StatusCode)
	}
	forged := []string{basic("ann"), "Cookie: session=" + admin, "Remote-User: admin", "X-Remote-User: admin", "X-Auth-User: admin"}
	ann := main.Do("GET", "/api/v1/auth/session", nil, forged...).Object(t)
	if ann["username"] != "ann" || ann["role"] != "user" {
		t.Fatalf("ann with another's headers is %v", ann)
	}
	page := main.Do("GET", "/", nil, basic("ann"))
	if page.StatusCode != 200 || !strings.Contains(string(page.Text), `data-text="sign_out" hidden`) || strings.Contains(string(page.Text), `data-sessions`) {
		t.Errorf("the dashboard: %d %s", page.StatusCode, page.Text)
	}
	if got := main.Do("GET", "/login?return=/x", nil, basic("ann")); got.StatusCode != 303 || got.Header.Get("Location") != "/x" {
		t.Errorf("/login: %d %v", got.StatusCode, got.Header)
	}
	main.Do("POST", "/api/v1/auth/login", map[string]any{"username": "admin", "password": testPassword}, basic("ann")).Problem(t, 403, "passwords-off")
	if got := main.Do("GET", "/api/v1/sessions", nil, basic("ann")).Object(t); len(got["items"].([]any)) != 0 {
		t.Errorf("the sessions are %v", got)
	}
	if got := main.Do("POST", "/api/v1/workspaces", map[string]any{"name": "one"}, basic("ann")); got.StatusCode != 201 {
		t.Fatalf("creating a workspace: %d %s", got.StatusCode, got.Text)
	}
	workspace := in.at(in.application("ann"))
	wait.Until(t, "the workspace answers", func() bool { return workspace.Do("GET", "/", nil, basic("ann")).StatusCode == 200 })
	reached := string(workspace.Do("GET", "/", nil, append(forged, "Cookie: a=1; codehub_ws="+admin)...).Text)
	for _, secret := range []string{"Authorization", "Remote-User", "X-Auth-User", admin} {
		if strings.Contains(reached, secret) {
			t.Errorf("the workspace sees %s:\n%s", secret, reached)
		}
	}
	for header, want := range map[string]int{"X-None: 1": 401, basic("bob"): 404, "Cookie: codehub_ws=" + admin: 401} {
		if got := workspace.Do("GET", "/", nil, header); got.StatusCode != want {
			t.Errorf("the workspace of ann with %s: %d, want %d", header, got.StatusCode, want)
		}
	}
	limit, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	wait.Quick(t, "ending the event stream of a disabled user", 2*time.Second, func() time.Duration { // about a second
		if err := in.coordinator().Auth.SetDisabled(t.Context(), "ann", false); err != nil {
			t.Fatal(err)
		}
		stream := main.Open(limit, "GET", "/api/v1/events", nil, basic("ann"))
		defer stream.Body.Close()
		if err := in.coordinator().Auth.SetDisabled(t.Context(), "ann", true); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if _, err := io.Copy(io.Discard, stream.Body); limit.Err() != nil {
			t.Fatalf("the event stream of a disabled user is still open: %v", err)
		}
		return time.Since(began)
	})
	main.Do("GET", "/api/v1/auth/session", nil, basic("ann")).Problem(t, 401, "not-signed-in")
	if got := main.Do("GET", "/login", nil, basic("ann"), "Accept-Language: ko"); got.StatusCode != 403 || !strings.Contains(string(got.Text), "중지된 계정") {
		t.Errorf("the page for a disabled user: %d %s", got.StatusCode, got.Text)
	}
	if got := workspace.Do("GET", "/", nil, basic("ann"), "Sec-Fetch-Mode: navigate", "Sec-Fetch-Dest: document", "Accept: text/html"); got.StatusCode != 403 {
		t.Errorf("the workspace of a disabled user: %d", got.StatusCode)
	}
}

// TestForwardAuthOfTheGuide checks the same for forward_auth: the signed-in user is the one in the authentication
// server's answer.
func TestForwardAuthOfTheGuide(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := r.Cookie("authelia_session")
		switch {
		case err != nil:
			http.Redirect(w, r, "https://auth.example.com/", http.StatusFound)
		case c.Value != "nobody":
			w.Header().Set("Remote-User", c.Value)
		}
	}))
	defer server.Close()
	in := install(t)
	if _, err := in.coordinator().Auth.AddUser(t.Context(), "ann", testPassword, "user"); err != nil {
		t.Fatal(err)
	}
	admin := in.signedIn("admin").Cookie
	in.use(strings.ReplaceAll(shown(t, "forward_auth"), "127.0.0.1:9091", server.Listener.Addr().String()))
	main := in.at(shownHost)
	if got := main.Do("GET", "/", nil, "Remote-User: ann"); got.StatusCode != 302 || got.Header.Get("Location") != "https://auth.example.com/" {
		t.Errorf("not signed in: %d %v", got.StatusCode, got.Header)
	}
	const signedIn = "Cookie: a=1; authelia_session=ann"
	if got := main.Do("GET", "/api/v1/auth/session", nil, signedIn, "Remote-User: admin").Object(t); got["username"] != "ann" {
		t.Errorf("ann is %v", got)
	}
	if got := main.Do("POST", "/api/v1/auth/logout", nil, signedIn).Object(t); got["redirect"] != "https://auth.example.com/logout" {
		t.Errorf("signing out: %v", got)
	}
	for cookie, text := range map[string]string{"nobody": "did not say who you are", "stranger": "have no account here"} {
		header := []string{"Cookie: session=" + admin + "; authelia_session=" + cookie, "Remote-User: admin"}
		main.Do("GET", "/api/v1/auth/session", nil, header...).Problem(t, 401, "not-signed-in")
		if got := main.Do("GET", "/login", nil, header...); got.StatusCode != 403 || !strings.Contains(string(got.Text), text) || strings.Contains(string(got.Text), "password") {
			t.Errorf("%s: %d %s", cookie, got.StatusCode, got.Text)
		}
	}
	if got := main.Do("POST", "/api/v1/workspaces", map[string]any{"name": "one"}, signedIn); got.StatusCode != 201 {
		t.Fatalf("creating a workspace: %d %s", got.StatusCode, got.Text)
	}
	workspace := in.at(in.application("ann"))
	wait.Until(t, "the workspace answers", func() bool { return workspace.Do("GET", "/", nil, signedIn).StatusCode == 200 })
	reached := string(workspace.Do("GET", "/", nil, signedIn, "Remote-User: admin", "Authorization: Bearer own").Text)
	if strings.Contains(reached, "authelia") || strings.Contains(reached, "Remote-User") || !strings.Contains(reached, "a=1") || !strings.Contains(reached, "Bearer own") {
		t.Errorf("the workspace sees:\n%s", reached)
	}
	for cookie, want := range map[string]int{"authelia_session=nobody": 401, "authelia_session=stranger": 401, "codehub_ws=" + admin: 302} {
		if got := workspace.Do("GET", "/", nil, "Cookie: "+cookie, "Remote-User: ann"); got.StatusCode != want {
			t.Errorf("the workspace of ann with %s: %d, want %d", cookie, got.StatusCode, want)
		}
	}
}
