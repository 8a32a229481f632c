package observation

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/identity"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// StoreTimeout bounds one question to the object store.
	StoreTimeout = 15 * time.Second
	// maxAge is how old an answer may be when the observation that uses it begins.
	maxAge = 10 * time.Second
)

// Archives is the part of the object store that is read.
type Archives interface {
	// Stat returns an error that is fs.ErrNotExist if the archive or its commit marker
	// does not exist. Any other error means that it is not known.
	Stat(ctx context.Context, key string) (archive.Info, error)
	// Versions returns the complete archives of a workspace, newest first.
	Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error)
}

// Store is the object store, with the check of its identity.
type Store struct {
	Archives Archives
	Identity Identity
}

// Question is a question to the object store about one workspace: its archives, and whether the bucket can be
// used.
type Question struct {
	Row                     workspace.Workspace
	Archive, Upload, Bucket bool
}

// Answer is the object store's answer. It is valid for the row at the time of the question, and is used once.
type Answer struct {
	Question Question
	at       time.Time
	// Found is whether the archive at archive_key exists. Uploaded is the same for the archive that an archive
	// operation in progress uploads, and Chosen is the same for the archive that an open revert has chosen.
	Found, Uploaded, Chosen workspace.Presence
	// Size and Sum are the size and checksum of the archive about which the store was asked last.
	Size int64
	Sum  string
	// Younger is as in [workspace.Observation].
	Younger string
	Store   workspace.StoreAnswer
}

// About reports whether p may be used to decide on w with an observation that began at the time began. That includes
// the answer that the store cannot be used.
func (p Answer) About(began time.Time, w workspace.Workspace) bool {
	asked := p.Question.Row
	return asked.ArchiveKey == w.ArchiveKey && asked.ArchiveOpID == w.ArchiveOpID &&
		asked.OpenRevert() == w.OpenRevert() && began.Sub(p.at) < maxAge
}

// Ask asks what the question names: the archive at archive_key, the archive that an archive operation in progress
// uploads, and the identity of the bucket. An archive counts as missing only if the recorded bucket says so (SPEC 2).
func (s Store) Ask(ctx context.Context, q Question) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, StoreTimeout)
	defer cancel()
	p := Answer{Question: q}
	var err error
	if q.Archive {
		p.Found, p.Size, p.Sum, err = s.stat(ctx, q.Row.ArchiveKey)
	}
	if q.Upload && err == nil {
		p.Uploaded, p.Size, p.Sum, err = s.stat(ctx, q.Row.ID.ArchiveKey(q.Row.ArchiveOpID))
	}
	if q.Bucket && q.Row.Reverting() && err == nil {
		p.Chosen, _, _, err = s.stat(ctx, q.Row.Revert.Key)
	}
	if err == nil && (q.Bucket || p.Found == workspace.Absent || p.Uploaded == workspace.Absent) {
		err = s.Identity.Bucket(ctx)
	}
	if q.Bucket && err == nil { // whatever the row says of the volume: it may be gone
		p.Younger, err = s.younger(ctx, q.Row)
	}
	if q.Bucket {
		p.Store.State = workspace.StoreAnswers
	}
	if err != nil && StateOf(err) == workspace.StoreRefuses {
		// A missing bucket and a wrong bucket refuse, too. Nothing follows from their refusal.
		var mismatch *identity.MismatchError
		if other := s.Identity.Bucket(ctx); errors.As(other, &mismatch) {
			err = other
		}
	}
	if err != nil {
		p.Found, p.Uploaded, p.Chosen = workspace.Unknown, workspace.Unknown, workspace.Unknown
		p.Store = workspace.StoreAnswer{State: StateOf(err), Message: err.Error()}
	}
	p.at = time.Now() // not the time of the question: a silent store takes longer than an answer may be used
	return p, err
}

// younger looks for an archive that is younger than the row of w, and returns its key or "".
func (s Store) younger(ctx context.Context, w workspace.Workspace) (string, error) {
	versions, err := s.Archives.Versions(ctx, w.ID)
	if err != nil {
		return "", fmt.Errorf("looking for younger archives of workspace %s: %w", w.ID, err)
	}
	return w.YoungerArchive(versions), nil
}

// stat asks about one archive.
func (s Store) stat(ctx context.Context, key string) (found workspace.Presence, size int64, sum string, err error) {
	info, err := s.Archives.Stat(ctx, key)
	switch {
	case err == nil, workspace.ReasonOf(err) == workspace.ReasonArchiveCorrupted:
		// Both objects exist (SPEC 2). If the commit marker is malformed, a restore fails with a clear error, and the
		// volume is not deleted.
		return workspace.Present, info.Size, info.SHA256, nil
	case errors.Is(err, fs.ErrNotExist):
		return workspace.Absent, 0, "", nil
	}
	return workspace.Unknown, 0, "", fmt.Errorf("checking archive %s: %w", key, err)
}

// StateOf returns the state of the object store that an error shows: it is away, it is another bucket, or it refuses.
func StateOf(err error) workspace.StoreState {
	var mismatch *identity.MismatchError
	switch {
	case errors.As(err, &mismatch):
		return workspace.StoreMismatch
	case workspace.ReasonOf(err) == workspace.ReasonUnreachable, errors.Is(err, context.DeadlineExceeded):
		return workspace.StoreAway
	}
	return workspace.StoreRefuses
}
