// Package identity verifies that a server is the one that this installation recorded (SPEC 2): the engine that runs its
// workspaces, and the bucket that holds their archives. A server that answers "there is nothing" may be the wrong one:
// another host's engine, an unmounted data folder, another installation's bucket. So callers ask this package before
// they conclude anything from an absence, and before they write or delete anything.
//
// The backend has its own identity. A bucket has none, so a marker object lies below its prefix.
//
// The package owns the marker's content, the rules of comparison, and the message that tells a person what to do. It
// must not decide what follows from a mismatch: every caller does that itself. It writes only its marker to the bucket,
// and only system_identity to the database.
package identity

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/outage"
	"github.com/codehub/gateway/coordinator/store"
)

// Times of the checks.
const (
	// checkTimeout bounds one check. A slower server counts as not answering.
	checkTimeout = 10 * time.Second
	// reconfirm is how often a process records a lasting mismatch again. forgetAfter is how old that record must be
	// before another process may withdraw it. Without forgetAfter, two processes with different settings would
	// contradict each other with every check.
	reconfirm   = 20 * time.Second
	forgetAfter = time.Minute
	// followInterval is how often a process reads what the others have found, and repeats its own check while something
	// is wrong.
	followInterval = 15 * time.Second
)

// Store is the part of the database that the guard uses. *store.Store implements it.
type Store interface {
	Identities(ctx context.Context) (map[store.Resource]store.Identity, error)
	RecordIdentity(ctx context.Context, r store.Resource, from, identity string) (recorded bool, err error)
	FoundIdentity(ctx context.Context, r store.Resource, found string) error
}

// Backend is a resource with its own identity. backend.Backend implements it.
type Backend interface {
	Identity(ctx context.Context) (string, error)
}

// Bucket is the part of the object store that the guard uses. *archive.Store implements it.
type Bucket interface {
	EnsureBucket(ctx context.Context) error
	ReadMarker(ctx context.Context) (archive.Marker, error)
	WriteMarker(ctx context.Context, content []byte, etag string) error
}

// Guard compares identities. Its methods are safe for concurrent use, and hold no lock while they talk to a server.
type Guard struct {
	store        Store
	backend      Backend
	bucket       Bucket
	installation string

	backendCheck, bucketCheck check

	mu    sync.Mutex // guards the fields below
	known map[store.Resource]store.Identity
	ours  map[store.Resource]bool // mismatches written by this process
}

// check is one of the two checks. It has the calls in progress, the log of this process's findings, and the log of
// other processes' findings.
type check struct {
	calls  flight
	outage *outage.Reporter
	others *outage.Reporter
}

// New returns a guard. It does no I/O.
func New(s Store, backend Backend, bucket Bucket, installation string, log *zap.Logger) *Guard {
	return &Guard{
		store: s, backend: backend, bucket: bucket, installation: installation,
		backendCheck: check{
			outage: outage.New(log, zapcore.ErrorLevel, "the container backend is not the recorded one",
				"the container backend is the recorded one"),
			others: outage.New(log, zapcore.WarnLevel, "another process sees a container backend other than the recorded one",
				"every other process sees the recorded container backend again"),
		},
		bucketCheck: check{
			outage: outage.New(log, zapcore.ErrorLevel, "the bucket is not the recorded one",
				"the bucket is the recorded one"),
			others: outage.New(log, zapcore.WarnLevel, "another process sees a bucket other than the recorded one",
				"every other process sees the recorded bucket again"),
		},
		known: make(map[store.Resource]store.Identity), ours: make(map[store.Resource]bool),
	}
}

// Backend returns nil only if the backend that answers now is the recorded one; the first backend ever seen is
// recorded. Otherwise the error is a [*MismatchError], which the guard has logged, or says that the identity is
// unknown.
//
// The answer always comes from a check that began after the call. An earlier check would say nothing about what a
// listing has shown since then. Simultaneous calls share an answer.
func (g *Guard) Backend(ctx context.Context) error {
	return g.run(ctx, &g.backendCheck, func(ctx context.Context) error {
		return g.settle(ctx, store.ResourceBackend,
			func(ctx context.Context, database string, row store.Identity) (step, error) {
				s, err := g.lookAtBackend(ctx, database, row)
				if err == nil && s.identity == "" {
					err = errors.New("reading the identity of the container backend: it has none; use an engine that has one")
				}
				return s, err
			})
	})
}

// Bucket returns nil only if the bucket that answers now is the recorded one. The first bucket ever seen gets the
// marker, unless it has the marker of another database. Errors and sharing are like those of [Guard.Backend].
func (g *Guard) Bucket(ctx context.Context) error {
	return g.run(ctx, &g.bucketCheck, func(ctx context.Context) error {
		return g.settle(ctx, store.ResourceBucket, g.lookAtBucket)
	})
}

// LookAtBucket returns a [*MismatchError] if the bucket is a different one, like [Guard.Bucket], but writes, records
// and logs nothing. It returns nil for a bucket that does not exist or has no marker yet.
func (g *Guard) LookAtBucket(ctx context.Context) error {
	return g.look(ctx, store.ResourceBucket, g.lookAtBucket)
}

// LookAtBackend returns a [*MismatchError] if the backend is a different one, like [Guard.Backend], but records and
// logs nothing. It returns nil while none is recorded yet.
func (g *Guard) LookAtBackend(ctx context.Context) error {
	return g.look(ctx, store.ResourceBackend, g.lookAtBackend)
}

// look looks once, and takes no step.
func (g *Guard) look(ctx context.Context, r store.Resource, look look) error {
	rows, err := g.store.Identities(ctx)
	if err != nil {
		return err
	}
	s, err := look(ctx, rows[store.ResourceDatabase].Identity, rows[r])
	if err == nil && s.do == refuse {
		err = &MismatchError{Resource: r, Expected: rows[r].Identity, Found: s.identity}
	}
	return err
}

// look reads an identity and judges it, given the identity of the database and the record.
type look func(ctx context.Context, database string, row store.Identity) (step, error)

// lookAtBackend is a [look] at the backend.
func (g *Guard) lookAtBackend(ctx context.Context, _ string, row store.Identity) (step, error) {
	found, err := g.backend.Identity(ctx)
	if err != nil {
		return step{}, fmt.Errorf("reading the identity of the container backend: %w", err)
	}
	return judgeBackend(row, found), nil
}

// lookAtBucket reads the marker and judges it.
func (g *Guard) lookAtBucket(ctx context.Context, database string, row store.Identity) (step, error) {
	found, err := g.bucket.ReadMarker(ctx)
	seen := sighting{}
	switch {
	case err == nil:
		seen = parseMarker(found)
	case errors.Is(err, archive.ErrNoBucket):
		seen.noBucket = true
	case !errors.Is(err, fs.ErrNotExist):
		return step{}, fmt.Errorf("reading the bucket's identity: %w", err)
	}
	return judgeBucket(row, marker{Installation: g.installation, Database: database}, seen), nil
}

// run shares and bounds a check, and logs its mismatches.
func (g *Guard) run(ctx context.Context, c *check, f func(context.Context) error) error {
	return c.calls.do(ctx, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, checkTimeout)
		defer cancel()
		err := f(ctx)
		var mismatch *MismatchError
		switch {
		case err == nil:
			c.outage.Recovered()
		case errors.As(err, &mismatch):
			c.outage.Failed(err, zap.String(logkey.Expected, mismatch.Expected), zap.String(logkey.Found, mismatch.Found))
		}
		return err
	})
}

// attempts bounds how often a check restarts because another process has recorded or written something in the meantime.
const attempts = 5

// settle calls look and takes the step that look returns, and repeats this until nothing is left to do. Several
// processes may do this concurrently: every write is conditional on the identity that was seen.
func (g *Guard) settle(ctx context.Context, r store.Resource, look look) error {
	for range attempts {
		// Read the record first, so that the server's answer is the newer of the two.
		rows, err := g.store.Identities(ctx)
		if err != nil {
			return err
		}
		g.learn(rows)
		row := rows[r]
		s, err := look(ctx, rows[store.ResourceDatabase].Identity, row)
		if err != nil {
			return err
		}
		switch done, err := g.take(ctx, r, row, s); {
		case err != nil:
			return err
		case done:
			return nil
		}
	}
	return fmt.Errorf("the identity of the %s keeps changing", r)
}

// take takes one step. It reports whether the resource is the recorded one now.
func (g *Guard) take(ctx context.Context, r store.Resource, row store.Identity, s step) (done bool, err error) {
	switch s.do {
	case trust:
		g.matched(ctx, r, row)
		return true, nil
	case record:
		_, err := g.store.RecordIdentity(ctx, r, row.Identity, s.identity)
		return false, err
	case write:
		if err := g.bucket.EnsureBucket(ctx); err != nil {
			return false, err
		}
		// Another process may have written the marker first. The next look sees that marker.
		if err := g.bucket.WriteMarker(ctx, s.marker.encode(), s.etag); err != nil &&
			!errors.Is(err, archive.ErrMarkerChanged) {
			return false, err
		}
		return false, nil
	default:
		g.mismatched(ctx, r, row, s.identity)
		return false, &MismatchError{Resource: r, Expected: row.Identity, Found: s.identity}
	}
}

// matched withdraws a recorded mismatch if this process has found it, or if no process has found it again for some
// time. If that fails, the next check does it.
func (g *Guard) matched(ctx context.Context, r store.Resource, row store.Identity) {
	_, ours := g.state(r)
	if row.Found == "" { // another process may have withdrawn it, or an administrator accepted it
		g.note(r, row, false)
		return
	}
	if !ours && row.FoundAgo < forgetAfter {
		return
	}
	if g.store.FoundIdentity(ctx, r, "") != nil {
		return
	}
	row.Found, row.Accepted = "", ""
	g.note(r, row, false)
}

// mismatched informs the other processes. If that fails, the next check does it.
func (g *Guard) mismatched(ctx context.Context, r store.Resource, row store.Identity, found string) {
	if row.Found != found || row.FoundAgo > reconfirm {
		_ = g.store.FoundIdentity(ctx, r, found)
	}
	row.Resource, row.Found = r, found
	g.note(r, row, true)
}

// note remembers a row, and whether its mismatch was found by this process.
func (g *Guard) note(r store.Resource, row store.Identity, ours bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known[r], g.ours[r] = row, ours
}

// learn remembers the recorded rows.
func (g *Guard) learn(rows map[store.Resource]store.Identity) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.known = maps.Clone(rows)
}

// Problems describes for people the mismatches that this or another process has found. It does no I/O; see [Guard.Run].
func (g *Guard) Problems() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	var problems []string
	for _, r := range []store.Resource{store.ResourceBackend, store.ResourceBucket} {
		if row := g.known[r]; row.Found != "" {
			problems = append(problems, (&MismatchError{Resource: r, Expected: row.Identity, Found: row.Found}).Error())
		}
	}
	return problems
}

// Database returns the identity of the database, or "" until it has been read. It does no I/O.
func (g *Guard) Database() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[store.ResourceDatabase].Identity
}

// Run keeps [Guard.Problems] up to date with the findings of other processes until ctx ends. It reads three rows every
// 15 seconds, and asks the backend or the bucket only while something is wrong there.
func (g *Guard) Run(ctx context.Context) error {
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		g.follow(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// follow learns the findings of other processes, and logs when they begin and end. If a mismatch is this process's own,
// follow repeats the check to keep the record up to date. It also repeats the check if no process has found the
// mismatch again for some time, so that the record does not outlive the mismatch.
func (g *Guard) follow(ctx context.Context) {
	rows, err := g.store.Identities(ctx)
	if err != nil {
		return // a database problem; others report it
	}
	g.learn(rows)
	for r, c := range map[store.Resource]*check{store.ResourceBackend: &g.backendCheck, store.ResourceBucket: &g.bucketCheck} {
		if row, ours := g.state(r); ours || row.Found != "" && row.FoundAgo >= forgetAfter {
			// The check logs and records its findings.
			if r == store.ResourceBackend {
				_ = g.Backend(ctx)
			} else {
				_ = g.Bucket(ctx)
			}
		}
		switch row, ours := g.state(r); {
		case ours || ctx.Err() != nil:
		case row.Found == "":
			c.others.Recovered()
		default:
			c.others.Failed(&MismatchError{Resource: r, Expected: row.Identity, Found: row.Found})
		}
	}
}

// state returns what is known about a resource, and whether its mismatch was found by this process.
func (g *Guard) state(r store.Resource) (row store.Identity, ours bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known[r], g.ours[r]
}
