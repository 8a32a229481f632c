package web

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/words"
)

// ShowOutdated answers a request to a process that is too old for its database. A program gets
// a problem. A person gets a page that tries again by itself, since another process may answer
// then; home is the list of all workspaces. An error means that nothing was sent.
func ShowOutdated(w http.ResponseWriter, r *http.Request, older *postgres.OlderError, home string) error {
	if !site.IsNavigation(r) {
		problem.Of(older).Write(w, r)
		return nil
	}
	w.Header().Set("Retry-After", problem.RetryUnavailable)
	w.Header().Set("Refresh", problem.RetryUnavailable)
	return Messages.ShowMessage(w, r, http.StatusServiceUnavailable, &Message{
		Heading: words.Of("page.outdated.heading", nil),
		Text:    words.Of("page.outdated.text", nil),
		Detail:  older.Text(),
		Remedy:  words.Of("page.outdated.remedy", nil),
	}, home)
}
