package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// Resource is something whose identity is recorded (SPEC 2).
type Resource string

// The resources.
const (
	// ResourceDatabase is this database. Its identity is created with its schema.
	ResourceDatabase Resource = "database"
	// ResourceBackend is the engine or cluster that runs the workspaces.
	ResourceBackend Resource = "backend"
	// ResourceBucket is the prefix of the bucket that holds the archives.
	ResourceBucket Resource = "bucket"
)

// Identity is the record about one resource.
type Identity struct {
	Resource Resource
	// Identity is the recorded identity. It is empty if another identity was seen and none has been recorded yet.
	Identity   string
	RecordedAt time.Time
	// Found is another identity that was seen instead, last FoundAgo ago; empty while the recorded one is seen.
	Found    string
	FoundAgo time.Duration
	// Accepted is the found identity that an administrator has accepted.
	Accepted string
}

// ErrNothingToAccept means that the identity to accept is not the one that was found last.
var ErrNothingToAccept = errors.New("nothing to accept: this is not what was found there last")

// Identities returns the records. A resource without a record is not in the map.
func (s *Store) Identities(ctx context.Context) (map[Resource]Identity, error) {
	all, err := postgres.Select(ctx, s.DB, "reading the recorded identities", postgres.RowToStruct[Identity], `
		SELECT resource, identity, recorded_at, found, now() - COALESCE(found_at, now()) AS found_ago, accepted
		FROM system_identity`)
	if err != nil {
		return nil, err
	}
	out := make(map[Resource]Identity, len(all))
	for _, i := range all {
		out[i.Resource] = i
	}
	return out, nil
}

// RecordIdentity replaces from, the recorded identity, with identity, and forgets other identities that were found or
// accepted. An empty from means that nothing is recorded yet. It returns false, and changes nothing, if another process
// has recorded something in the meantime.
func (s *Store) RecordIdentity(ctx context.Context, r Resource, from, identity string) (recorded bool, err error) {
	sql := `UPDATE system_identity
		SET identity = $3, recorded_at = now(), found = NULL, found_at = NULL, accepted = NULL
		WHERE resource = $1 AND identity = $2`
	if from == "" {
		sql = `INSERT INTO system_identity AS i (resource, identity) VALUES ($1, $3)
			ON CONFLICT (resource) DO UPDATE
			SET identity = excluded.identity, recorded_at = now(), found = NULL, found_at = NULL, accepted = NULL
			WHERE i.identity = $2`
	}
	n, err := s.Exec(ctx, "recording the identity of the "+string(r), sql, string(r), from, identity)
	return n == 1, err
}

// FoundIdentity records that an identity other than the recorded one was seen, so that every process knows. If found is
// empty, the recorded identity is seen again; an unused acceptance is then forgotten, too.
func (s *Store) FoundIdentity(ctx context.Context, r Resource, found string) error {
	sql, args := `INSERT INTO system_identity AS i (resource, identity, found, found_at) VALUES ($1, '', $2, now())
		ON CONFLICT (resource) DO UPDATE SET found = excluded.found, found_at = excluded.found_at`,
		[]any{string(r), found}
	if found == "" {
		sql, args = `UPDATE system_identity SET found = NULL, found_at = NULL, accepted = NULL WHERE resource = $1`,
			args[:1]
	}
	_, err := s.Exec(ctx, fmt.Sprintf("recording what the %s was found to be", r), sql, args...)
	return err
}

// AcceptIdentity accepts the identity that was found and shown to an administrator. The leader adopts it when
// it next sees it. It returns [ErrNothingToAccept] if another identity has been found since, or the recorded
// one again.
func (s *Store) AcceptIdentity(ctx context.Context, r Resource, found string) error {
	accepted, err := s.Exec(ctx, "accepting the identity of the "+string(r), `
		WITH accepted AS (
			UPDATE system_identity SET accepted = found WHERE resource = @resource AND found = @found
			RETURNING resource, identity, found
		)
		`+audit.OfSystem+`'system.accept', jsonb_build_object('resource', resource, 'expected', identity,
			'accepted', found) FROM accepted`,
		postgres.Args{"resource": string(r), "found": found, "by": audit.Of(ctx)})
	if err == nil && accepted == 0 {
		return ErrNothingToAccept
	}
	return err
}
