package api

import (
	"context"
	"net/http"
	"time"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/usage"
	"github.com/codehub/gateway/coordinator/words"
)

// Usage reports how long workspaces were in each phase (SPEC 14). *usage.Store implements it.
type Usage interface {
	Report(ctx context.Context, from, to time.Time, user string) (usage.Report, error)
	Now(ctx context.Context) (time.Time, error)
}

// ownReport is GET /report?from&to: how long the user's own workspaces were awake, asleep and archived.
func (c *call) ownReport() error { return c.report(c.user.ID) }

// allReport is GET /admin/report?from&to&user, for administrators: the same report for all workspaces, or for the
// workspaces of one user.
func (c *call) allReport() error {
	user := c.r.URL.Query().Get("user")
	if !postgres.Takes(user) {
		return &service.InvalidError{Field: "user", Problem: words.Of("problem.rule.utf8", nil)}
	}
	return c.report(user)
}

// report answers with a report of the requested days.
func (c *call) report(user string) error {
	now, err := c.Usage.Now(c.r.Context())
	if err != nil {
		return err
	}
	from, to := usage.LastMonth(now)
	for name, day := range map[string]*time.Time{"from": &from, "to": &to} {
		if text := c.r.URL.Query().Get(name); text != "" {
			if *day, err = time.Parse(time.DateOnly, text); err != nil || day.Year() < 1 {
				return &service.InvalidError{Field: name, Problem: words.Of("problem.rule.day", nil)}
			}
		}
	}
	found, err := c.Usage.Report(c.r.Context(), from, to, user)
	if err != nil {
		return err
	}
	return sendJSON(c.w, http.StatusOK, v1.UsageReportOf(found))
}
