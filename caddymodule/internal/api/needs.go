package api

import (
	"context"
	"time"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Workspaces reads and changes workspaces, and owns all rules about them. *service.Service implements it and
// documents the methods.
type Workspaces interface {
	Images() launch.Catalog
	Delays() explain.Delays
	Limits() service.Limits
	LimitsOf(ctx context.Context, userID string) (service.Limits, error)

	List(ctx context.Context, a service.Actor, o service.ListOptions, limit int, cursor string) ([]store.Listed, string, error)
	Running(ctx context.Context, userID string) ([]workspace.Workspace, error)
	Several(ctx context.Context, ids []workspace.ID) ([]workspace.Workspace, error)
	Position(ctx context.Context) (store.Position, error)
	ChangedSince(ctx context.Context, a service.Actor, p store.Position, after workspace.ID, limit int) ([]workspace.Workspace, error)
	Events(ctx context.Context, a service.Actor, limit int, before int64) ([]store.Event, error)

	Get(ctx context.Context, a service.Actor, id workspace.ID) (workspace.Workspace, error)
	Explain(ctx context.Context, a service.Actor, id workspace.ID) (explain.Explanation, error)
	History(ctx context.Context, a service.Actor, id workspace.ID, limit int, before int64) ([]store.Transition, error)
	Archives(ctx context.Context, a service.Actor, id workspace.ID) ([]service.Archive, error)

	Create(ctx context.Context, a service.Actor, in service.CreateInput) (workspace.Workspace, error)
	Update(ctx context.Context, a service.Actor, id workspace.ID, p service.Patch) (workspace.Workspace, error)
	SetDesired(ctx context.Context, a service.Actor, id workspace.ID, d workspace.DesiredState) error
	KeepAwake(ctx context.Context, a service.Actor, id workspace.ID, d time.Duration) (workspace.Workspace, error)
	Revert(ctx context.Context, a service.Actor, id workspace.ID, key string) (workspace.Workspace, error)
	Delete(ctx context.Context, a service.Actor, id workspace.ID, now bool) error
	Undelete(ctx context.Context, a service.Actor, id workspace.ID) (workspace.Workspace, error)
	Recover(ctx context.Context, a service.Actor, id workspace.ID, c service.Choice) (workspace.Workspace, error)
	RecoverAll(ctx context.Context, a service.Actor, reason workspace.ErrorReason, c service.Choice) (
		recovered []workspace.ID, failed map[workspace.ID]error, err error)
}

// Accounts knows users, their sign-ins, tickets and access tokens. *auth.Auth implements it and documents the methods.
type Accounts interface {
	SessionTTL() time.Duration
	Grant(ctx context.Context, token string) (auth.Grant, error)
	Token(ctx context.Context, secret string, needs auth.Scope, address string) (auth.Grant, error)
	IssuerOf(ctx context.Context, token string) (string, error)
	Ticket(ctx context.Context, token string, id workspace.ID, browser string) (string, error)
	Login(ctx context.Context, username, password string, from auth.Client) (token string, u auth.User, err error)
	Logout(ctx context.Context, token string) error
	ChangePassword(ctx context.Context, username, present, password string, from auth.Client) (token string, err error)
	Sessions(ctx context.Context, g auth.Grant) ([]auth.OpenSession, error)
	EndSession(ctx context.Context, g auth.Grant, id string) error

	Tokens(ctx context.Context, userID string) ([]auth.Token, error)
	CreateToken(ctx context.Context, g auth.Grant, name string, of []auth.Scope, days int) (t auth.Token, secret string, err error)
	RevokeToken(ctx context.Context, userID, id string) error

	Accounts(ctx context.Context, text string, limit int, cursor string) ([]auth.Account, string, error)
	Account(ctx context.Context, id string) (auth.Account, error)
	AddUser(ctx context.Context, username, password, role string) (auth.User, error)
	ChangeAccount(ctx context.Context, id string, c auth.AccountChange) (auth.Account, error)
	SignOut(ctx context.Context, id string) error
	Unlock(ctx context.Context, id string) error
}
