package v1

import (
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/workspace"
)

// AuditEntry is an entry of the audit, as programs see it (SPEC 13).
type AuditEntry struct {
	ID int64 `json:"id"`
	// At is the database's time.
	At     time.Time    `json:"at"`
	Action audit.Action `json:"action"`
	// Outcome is "done", or for a refusal the last word of the problem's type.
	Outcome string     `json:"outcome"`
	Actor   AuditActor `json:"actor"`
	// Workspace is the workspace concerned, and User its owner, or the user who signs in or is changed. Both have
	// the names of that time, and are null if there is none.
	Workspace *AuditWorkspace `json:"workspace"`
	User      *AuditUser      `json:"user"`
	// Details depend on the action.
	Details map[string]any `json:"details"`
}

// AuditActor is the author of a request, and its origin.
type AuditActor struct {
	Kind audit.Kind `json:"kind"`
	// ID and Name are the user's; other actors have at most a name.
	ID   *string `json:"id"`
	Name *string `json:"name"`
	// TokenID and TokenName identify the access token, null without one.
	TokenID   *string `json:"token_id"`
	TokenName *string `json:"token_name"`
	// Through is page, token or command line; null if not known.
	Through *audit.Through `json:"through"`
	// Address is the client's IP address, and Host the machine of a command line. They are null if not known,
	// and in a user's own audit for changes by others.
	Address *string `json:"address"`
	Host    *string `json:"host"`
	// Request is the id of the HTTP request, as in the access log.
	Request *string `json:"request"`
}

// AuditWorkspace is a workspace at the time of an entry.
type AuditWorkspace struct {
	ID   workspace.ID `json:"id"`
	Name *string      `json:"name"`
}

// AuditUser is a user at the time of an entry.
type AuditUser struct {
	ID       string  `json:"id"`
	Username *string `json:"username"`
}

// AuditOf returns an entry as programs see it.
func AuditOf(e auditlog.Entry) AuditEntry {
	a := e.Actor
	out := AuditEntry{
		ID: e.ID, At: e.At.UTC(), Action: e.Action, Outcome: e.Outcome, Details: e.Details,
		Actor: AuditActor{
			Kind: a.Kind, ID: orNull(a.ID), Name: orNull(a.Name), TokenID: orNull(a.TokenID), TokenName: orNull(a.TokenName),
			Through: orNull(a.Through), Address: orNull(a.Address), Host: orNull(a.Host), Request: orNull(a.Request),
		},
	}
	if out.Details == nil {
		out.Details = map[string]any{}
	}
	if e.WorkspaceID != "" {
		out.Workspace = &AuditWorkspace{e.WorkspaceID, orNull(e.WorkspaceName)}
	}
	if e.UserID != "" {
		out.User = &AuditUser{e.UserID, orNull(e.UserName)}
	}
	return out
}

// AccountAuditOf returns an entry about a user's account as that user sees it: without the origin of changes by
// others.
func AccountAuditOf(e auditlog.Entry, userID string) AuditEntry {
	if a := &e.Actor; a.Kind == audit.Operator || a.Kind == audit.User && a.ID != userID {
		a.Address, a.Host, a.Request = "", "", ""
	}
	return AuditOf(e)
}
