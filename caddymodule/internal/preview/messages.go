package preview

import (
	"fmt"
	"net/http"

	api "github.com/codehub/gateway/caddymodule/internal/api/pages"
	"github.com/codehub/gateway/caddymodule/internal/gateway/pages"
	"github.com/codehub/gateway/caddymodule/internal/oidc"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// mainSite is an address where people sign in.
const mainSite = "https://codehub.example"

// messagePages returns all messages. Those of package pages are named after its functions.
func messagePages() (list []*entry) {
	for _, m := range []struct {
		name   string
		status int
		of     func() *web.Message
	}{
		{"NotFound", http.StatusNotFound, pages.NotFound},
		{"Misdirected", http.StatusMisdirectedRequest, func() *web.Message { return pages.Misdirected(mainSite) }},
		{"NoAnswer", http.StatusBadGateway, func() *web.Message { return pages.NoAnswer("/") }},
		{"Unavailable", http.StatusServiceUnavailable, func() *web.Message { return pages.Unavailable("/") }},
		{"ExpiredTicket", http.StatusForbidden, func() *web.Message { return pages.ExpiredTicket("/") }},
		{"Busy", http.StatusConflict, func() *web.Message { return pages.Busy("/") }},
		{"NoUser", http.StatusForbidden, pages.NoUser},
		{"SignedOut", http.StatusUnauthorized, func() *web.Message { return pages.SignedOut("/") }},
		{"NoListener", http.StatusBadGateway, func() *web.Message { return pages.NoListener("/", 3000) }},
		{"Unpublished", http.StatusNotFound, pages.Unpublished},
	} {
		list = append(list, &entry{Group: "message", Name: m.name, Covers: []string{"message " + m.name},
			show: func(w http.ResponseWriter, r *http.Request) error {
				return pages.ShowMessage(w, r, m.status, m.of(), "/")
			}})
	}
	older := &postgres.OlderError{Release: postgres.Release{Known: 40, Schema: 42, Lead: 41, Serve: 41}, Serving: true}
	return append(list,
		&entry{Group: "message", Name: "nothing-at-this-address", show: web.ShowNotFound},
		&entry{Group: "message", Name: "outdated", show: func(w http.ResponseWriter, r *http.Request) error {
			return web.ShowOutdated(w, r, older, "/")
		}})
}

// signInPages returns the sign-in page with each way to sign in and with each refusal. It also returns the pages that
// may replace the sign-in page.
func (p *Preview) signInPages() (list []*entry) {
	add := func(name, hint string, refuse error, l api.Login) {
		l.Return, l.Start = "/", "/auth/oidc/start"
		list = append(list, &entry{Group: "sign-in", Name: name, Hint: hint, board: &board{refuse: refuse},
			show: func(w http.ResponseWriter, r *http.Request) error { return p.pages.ShowLogin(w, r, l) }})
	}
	both := api.Login{Passwords: true, Provider: true}
	for _, known := range []*problem.Problem{
		problem.Of(auth.ErrBadCredentials),
		problem.Of(&auth.ThrottledError{RetryAfter: throttled}),
		problem.NoPasswords.With("problem.sign_in_provider", nil),
		problem.Unavailable.With("problem.try_again", nil),
		problem.Internal.With("problem.see_log", nil),
	} {
		add("refused-"+lastPart(known.Type), "Sign in as any user.", known, both)
	}
	add("both", "", nil, both)
	add("password", "", nil, api.Login{Passwords: true})
	add("provider", "", nil, api.Login{Provider: true})
	for i, why := range []error{auth.ErrDisabled, auth.ErrUnknownUser, auth.ErrRefusedName, auth.ErrNoSession} {
		refusal := fmt.Errorf("%w: %w", auth.ErrNoSession, why)
		add(fmt.Sprintf("elsewhere-%d", i), why.Error(), nil, api.Login{Refusal: refusal})
	}
	return append(list,
		&entry{Group: "sign-in", Name: "unavailable", show: p.pages.ShowUnavailable},
		&entry{Group: "api", Name: "reference", show: func(w http.ResponseWriter, r *http.Request) error {
			return p.pages.ShowAPI(w, r, mainSite)
		}},
		&entry{Group: "sign-in", Name: "misdirected", show: func(w http.ResponseWriter, r *http.Request) error {
			return p.pages.ShowMisdirected(w, r, mainSite)
		}})
}

// providerPages returns the pages about failed sign-ins at the identity provider.
func providerPages() (list []*entry) {
	for i, err := range oidc.Failures() {
		list = append(list, &entry{Group: "provider", Name: fmt.Sprint(i), Hint: err.Error(),
			show: func(w http.ResponseWriter, r *http.Request) error { return oidc.ShowFailure(w, r, err) }})
	}
	return list
}
