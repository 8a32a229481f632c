package auth

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/store/accounts"
)

// Client identifies the origin of a sign-in. The user can see it, and failed sign-ins are counted by its address.
type Client struct {
	// Address is the IP address, or empty if unknown.
	Address string
	// Agent is the name that the browser or program gives itself.
	Agent string
}

// ThrottledError refuses a sign-in after too many others.
type ThrottledError struct {
	// RetryAfter is when the next one may succeed.
	RetryAfter time.Duration
}

// Error implements error.
func (e *ThrottledError) Error() string {
	return fmt.Sprintf("too many attempts to sign in: try again in %s", e.RetryAfter)
}

// Consecutive failed sign-ins in all processes, and their effect. No rule counts the failures of an account from all
// addresses together, because anyone could then lock out the account's owner. So an attacker with many addresses has
// the allowed number of guesses from each of them. An address is never blocked for all accounts, because many people
// may share it, for example in an office. Sign-ins from it only become slower.
//
//	counted                     effect          from   counted anew
//	an account at an address    a block         5th    after a successful sign-in, or after forgetFailures
//	an address, any account     a short delay   20th   after forgetFailures
//
// The first block lasts firstBlock. With every further failure the time doubles, up to longestBlock. Delays double in
// the same way from firstDelay to longestDelay. Exempt networks have no delays. An attempt is counted as failed before
// its password is checked, so that many simultaneous attempts do not count as one. If it fails for a reason other than
// the password, such as a database error, it is no longer counted.
const (
	failuresPerAccount = 5
	failuresPerAddress = 20
	firstBlock         = 30 * time.Second
	longestBlock       = 30 * time.Minute
	firstDelay         = 250 * time.Millisecond
	longestDelay       = 2 * time.Second
	forgetFailures     = time.Hour
)

// takeBackLimit bounds the statement that takes back a counted attempt. The request's own context does not bound it,
// because the client may be gone by then.
const takeBackLimit = 5 * time.Second

// maxPending is the largest number of sign-ins that are being checked or wait for that, and maxPendingPerAddress is the
// largest number from one address. Further sign-ins are refused immediately and do not count as failures, so that a
// flood does not keep honest people waiting. Delayed sign-ins wait separately, with limits of their own, so that they
// take no place from others.
const (
	maxPending           = 32
	maxPendingPerAddress = 4
	maxSlowed            = 512
	maxSlowedPerAddress  = 64
)

// keyOf returns the hash under which something is counted.
func keyOf(parts ...string) [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(parts, "\x00")))
}

// accountName returns the form of a user name under which sign-ins are counted.
func accountName(username string) string { return strings.ToLower(strings.TrimSpace(username)) }

// counters returns the counters of a sign-in. An account that does not exist counts like one that does.
func (a *Auth) counters(username string, c Client) []accounts.SignInCounter {
	address, name := network(c.Address), accountName(username)
	rules := []accounts.SignInCounter{{
		Key: keyOf("account", name, address), Account: keyOf("account", name), Free: failuresPerAccount, Cleared: true,
	}}
	if address != "" && !a.isExempt(c.Address) { // behind a socket all clients would have the same address
		rules = append(rules, accounts.SignInCounter{Key: keyOf("slow", address)})
	}
	return rules
}

// SetExempt sets the networks whose sign-ins are never delayed. It takes effect with the next sign-in.
func (a *Auth) SetExempt(networks []netip.Prefix) { a.exempt.Store(&networks) }

func (a *Auth) isExempt(address string) bool {
	networks, at := a.exempt.Load(), netip.Addr{}
	if networks != nil {
		at, _ = netip.ParseAddr(address)
	}
	return at.IsValid() && slices.ContainsFunc(*networks, func(p netip.Prefix) bool { return p.Contains(at.Unmap().WithZone("")) })
}

// network returns the network that one customer of an internet provider usually has: an IPv4 address, or the /64 of an
// IPv6 address. It is empty for anything else.
func network(address string) string {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return ""
	}
	if a = a.Unmap().WithZone(""); a.Is4() {
		return a.String()
	}
	p, _ := a.Prefix(64) // only fails for lengths that no address has
	return p.String()
}

// countAttempt counts a sign-in as failed, or refuses it with a [*ThrottledError]. It returns how long the sign-in must wait
// before its password is checked.
func (a *Auth) countAttempt(ctx context.Context, rules []accounts.SignInCounter) (delay time.Duration, err error) {
	blocks := accounts.SignInBlocks{First: firstBlock, Longest: longestBlock, Forget: forgetFailures}
	wait, failures, err := a.store.CountSignIn(ctx, rules, blocks)
	switch {
	case err != nil:
		return 0, err
	case wait > 0:
		return 0, &ThrottledError{RetryAfter: wait}
	case failures < failuresPerAddress:
		return 0, nil
	}
	return min(longestDelay, firstDelay<<min(failures-failuresPerAddress, 8)), nil
}

// slowDown waits for a delay, and then for a place to have the password checked. It returns the errors of [pending.enter]. The
// caller MUST call leave.
func (a *Auth) slowDown(ctx context.Context, address string, delay time.Duration) (leave func(), err error) {
	done, err := a.slowed.enter(address)
	if err != nil {
		return func() {}, err
	}
	defer done()
	if err := a.sleep(ctx, delay); err != nil {
		return func() {}, err
	}
	if leave, err = a.pending.enter(address); err != nil {
		return func() {}, err
	}
	return leave, nil
}

// sleep waits for d. If the context ends earlier, it returns the error of the context.
func sleep(ctx context.Context, d time.Duration) error {
	if !periodic.Pause(ctx, d) {
		return ctx.Err()
	}
	return nil
}

// takeBack takes back the counted attempt that ended with err, unless it ended because the password was wrong.
// [Auth.startSession] takes back successful attempts.
func (a *Auth) takeBack(ctx context.Context, username string, from Client, err error) {
	if err == nil || errors.Is(err, ErrBadCredentials) {
		return
	}
	rules := a.counters(username, from)
	for i := range rules {
		rules[i].Cleared = false // earlier wrong passwords still count
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), takeBackLimit)
	defer cancel()
	if err := a.store.ClearSignIn(ctx, rules); err != nil {
		a.log.Warn("a sign-in that failed for another reason stays counted as a wrong password", zap.Error(err))
	}
}

// pending counts the sign-ins that are being checked or wait.
type pending struct {
	most, mostPerAddress int

	mu        sync.Mutex
	all       int
	byAddress map[string]int
}

// newPending returns a pending with these limits.
func newPending(most, mostPerAddress int) *pending {
	return &pending{most: most, mostPerAddress: mostPerAddress, byAddress: make(map[string]int)}
}

// enter counts another sign-in, or refuses it with a [*ThrottledError]. The caller MUST call leave exactly once.
func (p *pending) enter(address string) (leave func(), err error) {
	address = network(address)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all >= p.most || address != "" && p.byAddress[address] >= p.mostPerAddress {
		return nil, &ThrottledError{RetryAfter: time.Second}
	}
	p.all++
	p.byAddress[address]++
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.all--
		if p.byAddress[address]--; p.byAddress[address] == 0 {
			delete(p.byAddress, address)
		}
	}, nil
}

// maxAgent bounds the stored name of a browser, in characters.
const maxAgent = 400

// origin returns the client in its stored form.
func (c Client) origin() accounts.Origin {
	agent := strings.ToValidUTF8(strings.ReplaceAll(c.Agent, "\x00", ""), "")
	if utf8.RuneCountInString(agent) > maxAgent {
		agent = string([]rune(agent)[:maxAgent])
	}
	address := ""
	if a, err := netip.ParseAddr(c.Address); err == nil {
		address = a.Unmap().String()
	}
	return accounts.Origin{Address: address, Client: agent}
}

// OpenSession is one of a user's sign-ins as the user sees it.
type OpenSession struct {
	// ID identifies the sign-in for [Auth.EndSession].
	ID string
	Client
	CreatedAt, LastUsedAt, ExpiresAt time.Time
	// Current means that the request used this sign-in.
	Current bool
}

// Sessions lists the sign-ins of the grant's user, the most recently used first. The time of the last use is accurate to a few
// minutes.
func (a *Auth) Sessions(ctx context.Context, g Grant) ([]OpenSession, error) {
	rows, err := a.store.SessionsOf(ctx, g.ID)
	if err != nil {
		return nil, err
	}
	out := make([]OpenSession, len(rows))
	for i, r := range rows {
		out[i] = OpenSession{
			ID: r.ID, Client: Client{Address: r.Address, Agent: r.Client},
			CreatedAt: r.CreatedAt, LastUsedAt: r.LastUsedAt, ExpiresAt: r.ExpiresAt, Current: r.ID == g.Session(),
		}
	}
	return out, nil
}

// EndSession ends one of the user's sign-ins. If id is empty, it ends all of them except the one of g. It returns
// [ErrNoSession] if the user has no such sign-in.
func (a *Auth) EndSession(ctx context.Context, g Grant, id string) error {
	if !checkText(id) {
		return ErrNoSession
	}
	ended, err := a.store.EndSessionsOf(ctx, g.ID, id, g.Session())
	if err != nil {
		return err
	}
	if id != "" && len(ended) == 0 {
		return ErrNoSession
	}
	a.sessions.cache.revoke(ended...)
	return nil
}
