package codehub

import (
	"context"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
)

// While PostgreSQL is away, sessions in memory stay valid. A request with any other session is not treated as signed
// out: it would be sent to a sign-in page, which cannot work either. This holds whether the gateway or an
// authentication handler looks up the session.
func TestSessionsWhilePostgreSQLIsAway(t *testing.T) {
	in := install(t)
	in.routes = append([]map[string]any{
		{"match": []map[string]any{{"header": map[string]any{"X-Test": []string{"provider"}}}}, "handle": []map[string]any{
			{"handler": "authentication", "providers": map[string]any{"codehub": map[string]any{"optional": true}}},
			{"handler": "codehub", "identity": "{http.auth.user.id}"},
		}},
		{"handle": []map[string]any{{"handler": "codehub"}}},
	}, in.routes...)
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	ann, forgotten := in.signedIn("ann"), in.signedIn("bob")
	path := "/w/" + ann.Create("one")["id"].(string) + "/.codehub/status"
	for ann.Do("GET", path, nil).StatusCode != 200 { // the route table follows
		if err := t.Context().Err(); err != nil {
			t.Fatal(err)
		}
	}
	forgotten.Cookie = flip(forgotten.Cookie) // well formed, never seen

	in.disconnect()
	for _, by := range []string{"X-Test: provider", "X-Test: gateway"} {
		if got := ann.Do("GET", path, nil, by); got.StatusCode != 200 {
			t.Errorf("%s: a known session: %d %s", by, got.StatusCode, got.Text)
		}
		for _, kind := range []string{"Sec-Fetch-Mode: navigate", "Sec-Fetch-Mode: cors", "Accept: */*"} {
			got := forgotten.Do("GET", path, nil, by, kind)
			if kind != "Sec-Fetch-Mode: navigate" { // people get a page
				got.Problem(t, 503, "unavailable")
			}
			if got.StatusCode != 503 || got.Header.Get("Retry-After") == "" {
				t.Errorf("%s: %s: status %d, %v", by, kind, got.StatusCode, got.Header)
			}
			if got := in.anyone().Do("GET", path, nil, by, kind); got.StatusCode == 503 {
				t.Errorf("%s: without a cookie there is nothing to look up, and yet: %s", by, got.Text)
			}
		}
	}
	for _, page := range []string{"/", "/login"} {
		if got := forgotten.Do("GET", page, nil, "Sec-Fetch-Mode: navigate"); got.StatusCode != 503 {
			t.Errorf("%s: %d %v", page, got.StatusCode, got.Header)
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

// disconnect cuts the coordinator off from the database until the test ends.
func (in *installation) disconnect() {
	in.t.Helper()
	config := in.db.Config().Copy()
	config.Database = "postgres"
	other, err := pgx.ConnectConfig(in.t.Context(), config)
	if err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() { _ = other.Close(context.Background()) })
	name := in.db.Config().Database
	quoted := pgx.Identifier{name}.Sanitize()
	if _, err := other.Exec(in.t.Context(), "ALTER DATABASE "+quoted+" ALLOW_CONNECTIONS false"); err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() {
		if _, err := other.Exec(context.Background(), "ALTER DATABASE "+quoted+" ALLOW_CONNECTIONS true"); err != nil {
			in.t.Error(err)
		}
	})
	if _, err := other.Exec(in.t.Context(), "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", name); err != nil {
		in.t.Fatal(err)
	}
}
