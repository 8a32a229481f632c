package codehub

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/caddyserver/caddy/v2"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// TestPlantedCookiesLockNobodyOut: a workspace's page sets cookies for the whole domain, as many and as large ones as
// browsers accept. Nobody is locked out by them. With Caddy's own header limit, these cookies are never deleted, and
// the start logs a warning about this.
func TestPlantedCookiesLockNobodyOut(t *testing.T) {
	in := install(t)
	warnings := func() int {
		app, err := caddy.ActiveContext().AppIfConfigured("codehub")
		if err != nil {
			t.Fatal(err)
		}
		core, logs := observer.New(zapcore.WarnLevel)
		warnOfAddresses(app.(*App).site, app.(*App).servers, zap.New(core))
		return logs.Filter(func(e observer.LoggedEntry) bool {
			return strings.Contains(fmt.Sprint(e.ContextMap()["remedy"]), "max_header_size 1MiB")
		}).Len()
	}
	planted := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf("planted%d=%s", i, strings.Repeat("x", 4000)))
		}
		return "Cookie: " + strings.Join(all, "; ")
	}
	if got := in.anyone().Do("GET", "/", nil, planted(8), "Sec-Fetch-Mode: navigate").StatusCode; got != http.StatusRequestHeaderFieldsTooLarge || warnings() != 1 {
		t.Errorf("with Caddy's own limit: %d, %d warnings", got, warnings())
	}
	in.server = map[string]any{"max_header_bytes": site.HeaderRoom}
	if err := in.load(); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{8, 180} {
		got := in.anyone().Do("GET", "/", nil, planted(n), "Sec-Fetch-Mode: navigate")
		deleted := strings.Count(strings.Join(got.Header["Set-Cookie"], "\n"), "Max-Age=0")
		if got.StatusCode != http.StatusSeeOther || deleted < min(n, 50) {
			t.Errorf("%d cookies: status %d, %d are deleted", n, got.StatusCode, deleted)
		}
	}
	if warnings() != 0 {
		t.Error("a limit that suffices is warned of")
	}
}

// TestTheExampleTakesPlantedCookies checks that the example accepts planted cookies. The chart accepts them, too: the
// chart's own test compares it with the example.
func TestTheExampleTakesPlantedCookies(t *testing.T) {
	if got, want := adapt(t, string(readExample(t))), fmt.Sprintf(`"max_header_bytes": %d`, site.HeaderRoom); !strings.Contains(got, want) {
		t.Errorf("Caddyfile.example gives no %s", want)
	}
}
