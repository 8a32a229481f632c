// Package auth knows who somebody is: users and their passwords, sessions, and
// the tickets that carry a session to a workspace's own host. Tokens are 256
// random bits of which only the SHA-256 is stored; passwords are stored as
// argon2id. A session that was seen lately is answered for from memory, so the
// data path asks PostgreSQL nothing, and who is signed in works on while
// PostgreSQL is away.
package auth

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/codehub/gateway/coordinator/store"
	"go.uber.org/zap"
	"golang.org/x/sync/singleflight"
)

var (
	// ErrBadCredentials: unknown, disabled, or the wrong password; which one is
	// told neither by the text nor by the time it takes.
	ErrBadCredentials = errors.New("wrong user name or password")
	// ErrNoSession: no session has this token, or it has ended.
	ErrNoSession = errors.New("not signed in")
	// ErrBadTicket: unknown, used, too old, or for another workspace.
	ErrBadTicket = errors.New("the ticket is not valid")
	// ErrNoWorkspace: unknown, deleted, or somebody else's.
	ErrNoWorkspace = errors.New("no such workspace")
	// ErrNoUser: nobody has this name.
	ErrNoUser = errors.New("no such user")
	// ErrUserExists: somebody has this name.
	ErrUserExists = errors.New("the user exists already")
)

// InvalidError says what is wrong with a user's name, password or role.
type InvalidError struct{ Field, Problem string }

// Error implements error.
func (e *InvalidError) Error() string { return e.Field + " " + e.Problem }

// Defaults of [Options].
const (
	DefaultSessionTTL = 14 * 24 * time.Hour
	DefaultCacheTTL   = 30 * time.Second
	DefaultTicketTTL  = 30 * time.Second
	DefaultMaxCached  = 10_000
	DefaultMaxHashing = 2
)

// Options configure an [Auth]; zero fields take the defaults.
type Options struct {
	// SessionTTL is how long a session lasts from its login.
	SessionTTL time.Duration
	// CacheTTL is how long a session is answered for from memory before it is
	// looked up again, beside the request that noticed. A session that ends is
	// forgotten at once, by notification; this bounds what a lost one costs.
	CacheTTL time.Duration
	// TicketTTL is how long a ticket can be redeemed.
	TicketTTL time.Duration
	// MaxCached bounds the sessions in memory; the longest unused make room.
	MaxCached int
	// MaxHashing bounds the passwords hashed at a time, 19 MiB and some 20 ms of
	// a processor each; the others wait.
	MaxHashing int
	// Logger is told when sessions cannot be looked up again.
	Logger *zap.Logger
}

// lookupTimeout bounds one look at a session in PostgreSQL, maxLookups how many
// are under way: made-up tokens must not take every connection there is.
const (
	lookupTimeout = 5 * time.Second
	maxLookups    = 4
	// retryAfter is the pause after a look that failed.
	retryAfter = time.Second
)

// User is who somebody is.
type User struct {
	ID, Username string
	// Role is "user" or "admin".
	Role string
}

// Admin reports whether the user is an administrator.
func (u User) Admin() bool { return u.Role == RoleAdmin }

// Auth checks passwords and sessions. It is safe for concurrent use.
type Auth struct {
	store *store.Store
	o     Options
	log   *zap.Logger
	now   func() time.Time

	cache   *cache
	flights singleflight.Group
	lookups chan struct{}
	hashing chan struct{}
	// retryAt, in Unix nanoseconds, is when a background look may be tried again;
	// away is whether the last one failed, so that it is logged once.
	retryAt atomic.Int64
	away    atomic.Bool

	ctx     context.Context
	cancel  context.CancelFunc
	mu      sync.Mutex // guards closed, so that nothing starts after Close
	closed  bool
	looking sync.WaitGroup
}

// New returns an Auth over st. Close ends what it has running.
func New(st *store.Store, o Options) *Auth {
	orDuration(&o.SessionTTL, DefaultSessionTTL)
	orDuration(&o.CacheTTL, DefaultCacheTTL)
	orDuration(&o.TicketTTL, DefaultTicketTTL)
	if o.MaxCached <= 0 {
		o.MaxCached = DefaultMaxCached
	}
	if o.MaxHashing <= 0 {
		o.MaxHashing = DefaultMaxHashing
	}
	if o.Logger == nil {
		o.Logger = zap.NewNop()
	}
	a := &Auth{
		store: st, o: o, log: o.Logger, now: time.Now,
		cache:   newCache(o.MaxCached),
		lookups: make(chan struct{}, maxLookups),
		hashing: make(chan struct{}, o.MaxHashing),
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

func orDuration(d *time.Duration, or time.Duration) {
	if *d <= 0 {
		*d = or
	}
}

// Close waits for background look-ups to end. It may be called more than once;
// sessions in memory are answered for until then and after.
func (a *Auth) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.looking.Wait()
}

// SessionTTL is how long a session lasts from its login.
func (a *Auth) SessionTTL() time.Duration { return a.o.SessionTTL }

// Login checks a password and starts a session. It returns [ErrBadCredentials].
func (a *Auth) Login(ctx context.Context, username, password string) (token string, u User, err error) {
	row, err := a.lookUser(ctx, username)
	if err != nil && !errors.Is(err, ErrNoUser) {
		return "", User{}, err
	}
	// Nobody of that name costs as much as somebody.
	ok, err := a.verify(ctx, row.PasswordHash, password)
	if err != nil {
		return "", User{}, err
	}
	if !ok || row.Disabled() {
		return "", User{}, ErrBadCredentials
	}
	token, hash := newToken()
	s, err := a.store.AddSession(ctx, row.ID, row.PasswordHash, hash, a.o.SessionTTL)
	if errors.Is(err, store.ErrNotFound) {
		return "", User{}, ErrBadCredentials
	}
	if err != nil {
		return "", User{}, err
	}
	if outdated(row.PasswordHash) {
		if err := a.rehash(ctx, row, password); err != nil {
			a.log.Warn("password hash not renewed", zap.String("user", row.ID), zap.Error(err))
		}
	}
	return token, User{ID: s.UserID, Username: s.Username, Role: s.Role}, nil
}

func (a *Auth) rehash(ctx context.Context, row store.User, password string) error {
	hash, err := a.hash(ctx, password)
	if err != nil {
		return err
	}
	return a.store.ReplaceHash(ctx, row.ID, row.PasswordHash, hash)
}

// Logout ends a session and those of workspaces that belong to it: here at once,
// in other processes when the notification arrives.
func (a *Auth) Logout(ctx context.Context, token string) error {
	hash, ok := hashToken(token)
	if !ok {
		return nil
	}
	if err := a.store.EndSession(ctx, hash); err != nil {
		return fmt.Errorf("signing out: %w", err)
	}
	a.cache.revokeToken(hash)
	return nil
}
