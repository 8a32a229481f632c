package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Audit records who requested what (SPEC 13). *auditlog.Log implements it.
type Audit interface {
	List(ctx context.Context, f auditlog.Filter, limit int, before *auditlog.Cursor) ([]auditlog.Entry, error)
	Each(ctx context.Context, f auditlog.Filter, do func(auditlog.Entry) error) error
	Write(ctx context.Context, action audit.Action, about workspace.ID, details map[string]any) error
	WriteIf(ctx context.Context, revisions []int64, action audit.Action, about workspace.ID, details map[string]any) error
	Refused(ctx context.Context, r auditlog.Refusal)
}

// audited returns the request with a context that names the origin of its changes.
func (h *Handler) audited(r *http.Request) *http.Request {
	return r.WithContext(audit.WithLater(r.Context(), func() audit.Actor { return h.Client(r) }))
}

// auditRefusal records that a known user's request was refused because the user or the access token
// lacks the right to make it.
func (c *call) auditRefusal(ctx context.Context, p *problem.Problem, err error) {
	by := c.grant
	var scope *auth.ScopeError
	if errors.As(err, &scope) {
		by = scope.Of
	}
	if by.ID == "" || p.Type != problem.Forbidden.Type && p.Type != problem.TokenScope.Type {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.DatabaseTimeout)
	defer cancel()
	c.Audit.Refused(audit.With(ctx, by.Actor(c.Client(c.r))), auditlog.Refusal{
		Action: audit.APIRequest, Why: p.Type[strings.LastIndexByte(p.Type, ':')+1:], UserID: by.ID, Username: by.Username,
		Details: map[string]any{"request": c.r.Pattern},
	})
}

// maxProgram is how long the recorded name of a program may be, in bytes.
const maxProgram = 64

// auditExec records that a command begins. It keeps only the base name of the program, because the arguments may
// contain secrets. If the first word does not look like a program's name, it keeps nothing, because that word may
// contain a secret, too. The workspace must have one of the revisions; nil allows any.
func (c *call) auditExec(program string, revisions []int64) error {
	name := path.Base(program)
	if len(name) > maxProgram || strings.ContainsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._+-", r)
	}) {
		name = ""
	}
	ctx, cancel := context.WithTimeout(c.r.Context(), c.DatabaseTimeout)
	defer cancel()
	err := c.Audit.WriteIf(ctx, revisions, audit.WorkspaceExec, c.id, map[string]any{"program": name})
	if errors.Is(err, auditlog.ErrStale) {
		return service.ErrStale
	}
	return err
}

// readAudit is GET /admin/audit?user&workspace&action&since&until&limit&cursor, for administrators: the audit
// entries, newest first. With ?format=jsonl, or Accept: application/x-ndjson, the answer has all entries that match
// the filter, one object per line, without pages.
func (c *call) readAudit() error {
	f, err := c.auditFilter()
	if err != nil {
		return err
	}
	format := c.r.URL.Query().Get("format")
	switch {
	case format == "jsonl", format == "" && strings.Contains(c.r.Header.Get("Accept"), ndjson):
		if _, _, err := c.auditPage(); err != nil { // the answer has no pages, but invalid parameters are still refused
			return err
		}
		return c.streamAudit(f)
	case format != "" && format != "json":
		return &service.InvalidError{Field: "format", Problem: words.Of("problem.rule.audit_format", nil)}
	}
	return c.sendAudit(f, v1.AuditOf)
}

// ownAudit is GET /me/audit?limit&cursor: it lists the sign-ins, the access tokens and the changes of the user's own
// account, newest first. If someone else made a change, the answer hides the change's origin.
func (c *call) ownAudit() error {
	f := auditlog.Filter{Concerning: c.user.ID, Actions: slices.Concat(audit.Matching("user"), audit.Matching("token"))}
	return c.sendAudit(f, func(e auditlog.Entry) v1.AuditEntry { return v1.AccountAuditOf(e, c.user.ID) })
}

// sendAudit answers with a page.
func (c *call) sendAudit(f auditlog.Filter, view func(auditlog.Entry) v1.AuditEntry) error {
	n, before, err := c.auditPage()
	if err != nil {
		return err
	}
	// It reads one entry more than requested, to find out whether another page follows.
	page, err := c.Audit.List(c.r.Context(), f, n+1, before)
	if err != nil {
		return err
	}
	next := ""
	if len(page) > n {
		page = page[:n]
		text, err := json.Marshal(page[n-1].Cursor())
		if err != nil {
			return err
		}
		next = base64.RawURLEncoding.EncodeToString(text)
	}
	return sendPage(c, page, next, view)
}

// auditPage reads from the query how many entries the page has, and where it begins. A nil cursor is the beginning.
func (c *call) auditPage() (n int, before *auditlog.Cursor, err error) {
	limit, err := c.number("limit", service.MaxPage)
	if err == nil {
		before, err = auditCursor(c.r.URL.Query().Get("cursor"))
	}
	return cmp.Or(int(limit), service.DefaultPage), before, err
}

// auditCursor parses the cursor at which a page begins. An empty text gives nil, the beginning.
func auditCursor(text string) (*auditlog.Cursor, error) {
	if text == "" {
		return nil, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	var at auditlog.Cursor
	if err != nil || json.Unmarshal(raw, &at) != nil || at.At.Year() < 1 || at.At.Year() > 9999 {
		return nil, &service.InvalidError{Field: "cursor", Problem: words.Of("problem.rule.cursor", nil)}
	}
	return &at, nil
}

// auditFilter reads the filter of the request.
func (c *call) auditFilter() (f auditlog.Filter, err error) {
	q := c.r.URL.Query()
	if f.User = q.Get("user"); !postgres.Takes(f.User) {
		return f, &service.InvalidError{Field: "user", Problem: words.Of("problem.rule.utf8", nil)}
	}
	if text := q.Get("workspace"); text != "" {
		if f.Workspace, err = workspace.ParseID(text); err != nil {
			return f, &service.InvalidError{Field: "workspace", Problem: words.Of("problem.rule.workspace_id", nil)}
		}
	}
	if text := q.Get("action"); text != "" {
		if f.Actions = audit.Matching(text); f.Actions == nil {
			return f, &service.InvalidError{Field: "action",
				Problem: words.Of("problem.rule.audit_action", words.Values{"Actions": audit.Names()})}
		}
	}
	for name, at := range map[string]*time.Time{"since": &f.Since, "until": &f.Until} {
		if text := q.Get(name); text != "" {
			if *at, err = time.Parse(time.RFC3339, text); err != nil || at.Year() < 1 {
				return f, &service.InvalidError{Field: name, Problem: words.Of("problem.rule.time", nil)}
			}
		}
	}
	return f, nil
}

// ndjson is the type of JSON lines.
const ndjson = "application/x-ndjson"

// flushAudit is how much of the answer is sent at once, in bytes.
const flushAudit = 64 << 10

// streamAudit answers with every entry, one per line, until the client leaves or the session or this configuration
// ends. It holds one page of entries in memory. If the answer cannot be completed, the connection is broken off, so
// that no client takes the answer for a complete one.
func (c *call) streamAudit(f auditlog.Filter) error {
	ctx, out, done, err := c.live(ndjson)
	if err != nil {
		return err
	}
	defer done()
	c.w.Header().Set("Content-Disposition", `attachment; filename="audit.jsonl"`)
	if c.r.Method == http.MethodHead {
		return out.write(nil)
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	flush := func() error {
		defer lines.Reset()
		return out.write(lines.Bytes())
	}
	err = c.Audit.Each(ctx, f, func(e auditlog.Entry) error {
		if err := encoder.Encode(v1.AuditOf(e)); err != nil || lines.Len() < flushAudit {
			return err
		}
		return flush()
	})
	if err == nil {
		err = flush()
	}
	if err != nil && out.begun {
		panic(http.ErrAbortHandler)
	}
	return err
}
