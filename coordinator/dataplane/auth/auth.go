// Package auth authenticates users: it checks passwords, sessions, and the tickets that carry a session to a workspace's own
// host. Tokens are 256 random bits, of which only the SHA-256 is stored; passwords are stored as argon2id. A session
// that was checked recently is found in memory. So the data path does not query PostgreSQL, and signed-in users can
// work while PostgreSQL does not answer.
//
// It owns the rules for user names, passwords, roles and the lifetime of sessions. It must not decide what a user may do with a
// workspace, which is the service layer's task. It must know nothing about cookies and HTTP requests.
package auth

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/coordinator/store/accounts"
	"github.com/codehub/gateway/coordinator/store/auditlog"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// The errors that callers must distinguish. Any other error means that PostgreSQL did not answer.
var (
	// ErrBadCredentials: an unknown or disabled user, or the wrong password. Neither the text nor the time that it takes reveals
	// which.
	ErrBadCredentials = errors.New("wrong user name or password")
	// ErrNoSession: no session has this token, or the session has ended.
	ErrNoSession = errors.New("not signed in")
	// ErrBadToken: no personal access token has this secret, or the token has ended. It wraps [ErrNoSession].
	ErrBadToken = fmt.Errorf("%w: the access token is not valid", ErrNoSession)
	// ErrNoToken: the user has no access token with this id.
	ErrNoToken = errors.New("access token not found")
	// ErrBadTicket: unknown, used, too old, or for another workspace.
	ErrBadTicket = errors.New("the ticket is not valid")
	// ErrNoWorkspace: unknown, deleted, or another user's.
	ErrNoWorkspace = errors.New("workspace not found")
	// ErrNoUser: no user has this name.
	ErrNoUser = errors.New("user not found")
	// ErrUserExists: the name is taken.
	ErrUserExists = errors.New("the user already exists")
	// ErrLastAdministrator: after the change, no other administrator could sign in.
	ErrLastAdministrator = accounts.ErrLastAdministrator
	// ErrOwnAccount: administrators cannot disable themselves or give up their own role.
	ErrOwnAccount = errors.New("administrators cannot disable or demote themselves")
	// ErrPeopleOnly: an access token was used for something that only signed-in people may do (SPEC 11). Every method that
	// changes accounts or sign-ins returns it in the context of such a request.
	ErrPeopleOnly = accounts.ErrPeopleOnly
)

// Defaults of [Options].
const (
	DefaultSessionTTL = 14 * 24 * time.Hour
	DefaultCacheTTL   = 30 * time.Second
	DefaultTicketTTL  = 30 * time.Second
	DefaultMaxCached  = 10_000
	DefaultMaxHashing = 2
)

// MinSessionTTL is the shortest lifetime of a session that [Options.Validate] accepts.
const MinSessionTTL = time.Minute

// Options configure an [Auth]; zero fields take the defaults.
type Options struct {
	// SessionTTL is how long a session lasts after its sign-in. It is at least [MinSessionTTL].
	SessionTTL time.Duration
	// CacheTTL is how long a session is used from memory before it is checked again, in the background. Normally a
	// notification removes an ended session from memory immediately. CacheTTL bounds the effect of a lost notification.
	CacheTTL time.Duration
	// TicketTTL is how long a ticket can be redeemed.
	TicketTTL time.Duration
	// MaxCached bounds the sessions in memory. If there are more, those that have been unused for longest are evicted.
	MaxCached int
	// MaxHashing bounds how many passwords are hashed at the same time; others wait for their turn. Hashing one takes
	// 19 MiB of memory and about 20 ms of processor time.
	MaxHashing int
	// Logger gets a line when sessions can no longer be checked, and another one when they can be checked again.
	Logger *zap.Logger
	// Audit receives failed sign-ins. Default: the database's audit log.
	Audit *auditlog.Log
}

// withDefaults returns the options with a default for every unset field.
func (o Options) withDefaults() Options {
	orDefault(&o.SessionTTL, DefaultSessionTTL)
	orDefault(&o.CacheTTL, DefaultCacheTTL)
	orDefault(&o.TicketTTL, DefaultTicketTTL)
	orDefault(&o.MaxCached, DefaultMaxCached)
	orDefault(&o.MaxHashing, DefaultMaxHashing)
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	return o
}

// orDefault replaces a value that is not positive.
func orDefault[T ~int | ~int64](value *T, or T) {
	if *value <= 0 {
		*value = or
	}
}

// Validate reports what is wrong with the options, under the name of the setting. Only SessionTTL is a setting. Invalid
// values of other fields are replaced by their defaults.
func (o Options) Validate() error {
	if o.SessionTTL != 0 && o.SessionTTL < MinSessionTTL {
		return setting.Errorf("session_ttl", "%s is too short; give at least %s", o.SessionTTL, MinSessionTTL)
	}
	return nil
}

// User is a session's user.
type User struct {
	// ID is the user's UUID; Username is the name to sign in with.
	ID, Username string
	// Role is [RoleUser] or [RoleAdmin].
	Role string
}

// Admin reports whether the user is an administrator.
func (u User) Admin() bool { return u.Role == RoleAdmin }

// Auth checks passwords, sessions and tickets. It is safe for concurrent use.
type Auth struct {
	store    *accounts.Store
	opts     Options
	log      *zap.Logger
	hasher   *hasher
	sessions *sessions
	vouched  *life // the life of every grant without a session
	pending  *pending
	slowed   *pending
	exempt   atomic.Pointer[[]netip.Prefix]
	sleep    func(context.Context, time.Duration) error
}

// New returns an Auth that uses st. It does no I/O. [Auth.Close] ends its background checks.
func New(st *accounts.Store, o Options) *Auth {
	if o = o.withDefaults(); o.Audit == nil && st != nil {
		o.Audit = auditlog.New(st.DB, o.Logger)
	}
	return &Auth{
		store: st, opts: o, log: o.Logger,
		hasher:   newHasher(o.MaxHashing),
		sessions: newSessions(st, o), vouched: newLife("", 0),
		pending: newPending(maxPending, maxPendingPerAddress), slowed: newPending(maxSlowed, maxSlowedPerAddress), sleep: sleep,
	}
}

// Close cancels background checks and waits until they have ended. It may be called more than once. Sessions in memory are still
// answered afterwards.
func (a *Auth) Close() { a.sessions.close() }

// Vouched returns a grant for a user whom another authentication has verified. It has no session.
func (a *Auth) Vouched(userID string) Grant { return Grant{User{ID: userID}, a.vouched} }

// Refuse ends everything that is open in this process, and admits no further request: every lookup of a session returns cause.
// The sessions themselves stay valid for other processes.
func (a *Auth) Refuse(cause error) {
	a.sessions.refuse(cause)
	a.vouched.end()
}

// SessionTTL returns how long a session lasts from its sign-in.
func (a *Auth) SessionTTL() time.Duration { return a.opts.SessionTTL }

// Login checks a password and starts a session. It returns the session's token, which is not stored anywhere. A wrong
// name or password is [ErrBadCredentials]. After too many failures the error is a [*ThrottledError]. If the password's
// hash has outdated costs, it replaces the hash. If that fails, the login still succeeds.
func (a *Auth) Login(ctx context.Context, username, password string, from Client) (token string, u User, err error) {
	row, err := a.authenticate(ctx, username, password, from)
	if err != nil {
		return "", User{}, err
	}
	token, u, err = a.startSession(ctx, row, from)
	if err == nil && outdated(row.PasswordHash) {
		if err := a.rehash(ctx, row, password); err != nil {
			a.log.Warn("password hash not renewed; the next sign-in tries again", zap.String(logkey.User, row.ID),
				zap.Error(err))
		}
	}
	return token, u, err
}

// authenticate returns the user with that password. The attempt counts as failed until [Auth.startSession] starts the
// session. If it fails for a reason other than the password, it no longer counts. It returns the errors of
// [Auth.Login].
func (a *Auth) authenticate(ctx context.Context, username, password string, from Client) (row accounts.User, err error) {
	leave, err := a.pending.enter(from.Address)
	if err != nil {
		return row, err
	}
	defer func() { leave() }()
	delay, err := a.countAttempt(ctx, a.counters(username, from))
	if err != nil {
		return row, err
	}
	defer func() { a.takeBack(ctx, username, from, err) }()
	if delay > 0 {
		leave()
		if leave, err = a.slowDown(ctx, from.Address, delay); err != nil {
			return row, err
		}
	}
	if row, err = a.userByName(ctx, username); err != nil && !errors.Is(err, ErrNoUser) {
		return row, err
	}
	// An unknown name takes as long as a known one.
	ok, err := a.hasher.verify(ctx, row.PasswordHash, password)
	if err == nil && (!ok || row.Disabled()) {
		err = ErrBadCredentials
		a.opts.Audit.Refused(ctx, auditlog.Refusal{
			Action: audit.UserSignIn, Why: "bad-credentials", UserID: row.ID, Username: row.Username,
		})
	}
	return row, err
}

// startSession starts a session for a user who was authenticated with the row's password.
func (a *Auth) startSession(ctx context.Context, row accounts.User, from Client) (token string, u User, err error) {
	defer func() { a.takeBack(ctx, row.Username, from, err) }()
	token, hash := newToken()
	s, err := a.store.AddSession(ctx, row.ID, row.PasswordHash, hash, a.opts.SessionTTL, from.origin())
	if errors.Is(err, postgres.ErrNotFound) {
		return "", User{}, ErrBadCredentials
	}
	if err != nil {
		return "", User{}, err
	}
	if err := a.store.ClearSignIn(ctx, a.counters(row.Username, from)); err != nil {
		a.log.Warn("a sign-in that succeeded stays counted as a failed one", zap.String(logkey.User, row.ID), zap.Error(err))
	}
	return token, userOf(s), nil
}

// rehash replaces a hash with outdated costs.
func (a *Auth) rehash(ctx context.Context, row accounts.User, password string) error {
	hash, err := a.hasher.hash(ctx, password)
	if err != nil {
		return err
	}
	return a.store.ReplaceHash(ctx, row.ID, row.PasswordHash, hash)
}

// Logout ends a session and the workspace sessions that belong to it. They end immediately in this process, and in
// other processes when the notification arrives.
func (a *Auth) Logout(ctx context.Context, token string) error {
	hash, ok := hashToken(token)
	if !ok {
		return nil
	}
	if err := a.store.EndSession(ctx, hash); err != nil {
		return fmt.Errorf("signing out: %w", err)
	}
	a.sessions.cache.revokeToken(hash)
	return nil
}

// Session returns the user of a main session, usually from memory. It returns [ErrNoSession] if there is no such
// session. It returns another error if the session is not in memory and PostgreSQL does not answer: then it is unknown
// whether the session is valid.
func (a *Auth) Session(ctx context.Context, token string) (User, error) {
	g, err := a.sessions.grant(ctx, token, "")
	return g.User, err
}

// Grant is [Auth.Session] for requests that may stay open. The grant lets them end with the session.
func (a *Auth) Grant(ctx context.Context, token string) (Grant, error) {
	return a.sessions.grant(ctx, token, "")
}

// Revoked removes from memory a session that has ended, and the workspace sessions that belong to it. It also ends the
// requests that are open with them. The listener calls it (postgres.ChannelRevoked).
func (a *Auth) Revoked(sessionID string) { a.sessions.cache.revoke(sessionID) }

// Resync makes every session in memory due for a check at its next use. It also ends everything that is open with
// sessions that have ended meanwhile. The listener of notifications calls it after each connection, because it has
// missed earlier notifications. It does not wait.
func (a *Auth) Resync() { a.sessions.resync() }
