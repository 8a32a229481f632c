package main

import (
	"context"
	"errors"
	"fmt"
	"io"

	"filippo.io/age"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/compression"
	"github.com/codehub/gateway/storagejob/internal/encryption"
	"github.com/codehub/gateway/storagejob/internal/object"
	"github.com/codehub/gateway/storagejob/internal/tree"
)

// Limits for archives that another program has made or that are damaged.
const (
	// The .meta of an archive may lack the size of the content, because another program has made the archive or its
	// metadata was lost in a copy. Such an archive may unpack to freeExpansion bytes plus maxExpansion times its size.
	// Text compresses by a factor of 3 to 100, a bomb by thousands.
	freeExpansion = 64 << 20
	maxExpansion  = 1000
	// maxLockedRead is the size, in bytes, up to which an archive that no key opens is read to its end for its
	// checksum. The job is repeated until a key opens it.
	maxLockedRead = 64 << 20
)

// restore makes the volume equal to the archive (SPEC 7). It reads the archive once, into the staging folder, and
// changes the user's files only after verifying the checksum. If it fails before that, the volume is unchanged. After a
// kill, the next run continues from the state on disk: see package tree.
func restore(ctx context.Context, s settings, from *object.Archive, rep *reporter) (res contract.Result, err error) {
	info, err := from.Meta(ctx)
	if err != nil {
		return contract.Result{}, err
	}
	volume, err := tree.OpenVolume(s.volume, s.operation)
	if err != nil {
		return contract.Result{}, err
	}
	defer func() { err = errors.Join(err, volume.Close()) }()
	volume.Step = s.step
	res = contract.Result{Size: info.Size, SHA256: info.SHA256}

	// A run that was killed at its very end has done everything. The files may have been used since then, so their
	// state is unknown.
	if res.Done, err = volume.Restored(info.SHA256); err != nil || res.Done {
		return res, err
	}
	// If an earlier run was killed after the verification, only the swap is left to do.
	done, err := volume.Verified(info.SHA256)
	if err != nil {
		return contract.Result{}, err
	}
	if !done && s.newVolume {
		if err := volume.CheckEmpty(); err != nil {
			return contract.Result{}, err
		}
	}
	if !done {
		if res.Size, err = unpack(ctx, s, from, info, volume, rep); err != nil {
			// Leave the volume as it was, and free the disk space.
			return contract.Result{}, errors.Join(err, volume.Discard())
		}
		if err := volume.Commit(info.SHA256); err != nil {
			return contract.Result{}, err
		}
	}
	res.Done = done
	rep.enter(contract.StepSwap)
	if err := volume.Swap(ctx, info.SHA256); err != nil {
		return res, err
	}
	// The home is restored, with or without a fingerprint.
	if err := s.about("fingerprint"); err != nil {
		return res, err
	}
	res.Fingerprint, _ = fingerprintOf(ctx, s.volume, s.operation)
	return res, nil
}

// unpack reads the archive into the volume's staging folder and verifies its size and checksum. It returns the
// archive's size in bytes. If several things are wrong, it reports the cause rather than the consequence: a store error
// first, then a wrong checksum, then wrong content.
func unpack(ctx context.Context, s settings, from *object.Archive, info object.Info, volume *tree.Volume,
	rep *reporter) (int64, error) {
	raw, err := download(ctx, from, contract.StepUnpack, rep)
	if err != nil {
		return 0, err
	}
	defer raw.close()
	size := raw.size
	if size == 0 || info.Size > 0 && size != info.Size {
		return 0, fmt.Errorf("the archive has %d bytes, its .meta says %d: %w", size, info.Size, tree.ErrCorrupt)
	}

	limits := tree.Limits{Bytes: info.Content, KeepFree: s.keepFree}
	if limits.Bytes == 0 {
		limits.Bytes = freeExpansion + maxExpansion*size
	}
	err = decode(ctx, raw, s.keys.identities, volume, limits, rep)
	if raw.failed != nil {
		return 0, raw.failed // the content is broken only because of it
	}
	var refused *tree.RefusedError
	byContent := errors.As(err, &refused) && refused.ByContent
	// A damaged beginning may also look as if no key fits.
	locked := errors.Is(err, encryption.ErrLocked) && size <= maxLockedRead
	if err != nil && !byContent && !locked && !errors.Is(err, tree.ErrCorrupt) {
		return 0, err
	}
	// Hash the rest even if the content was refused: a wrong checksum explains the refusal. If the checksum is correct,
	// the file system refuses something that the home really contained.
	sum, readErr := raw.finish()
	if readErr != nil {
		return 0, readErr
	}
	if sum != info.SHA256 {
		return 0, fmt.Errorf("the archive's sha256 is %s, its .meta says %s: %w", sum, info.SHA256, tree.ErrCorrupt)
	}
	return size, err
}

// decode decrypts and decompresses an archive into the staging folder. The decoder's memory is bounded, and limits
// bounds its output.
func decode(ctx context.Context, raw io.Reader, keys []age.Identity, volume *tree.Volume, limits tree.Limits,
	rep *reporter) error {
	stream, err := open(raw, keys...)
	if errors.Is(err, encryption.ErrLocked) {
		return err
	}
	if err != nil {
		return fmt.Errorf("%w: %w", tree.ErrCorrupt, err)
	}
	defer stream.Close()
	return volume.Unpack(ctx, stream, limits, &rep.Counter)
}

// open returns the tar stream in an archive. If the archive is encrypted, one of the keys must open it.
func open(raw io.Reader, keys ...age.Identity) (io.ReadCloser, error) {
	content, err := encryption.Open(raw, keys...)
	if err != nil {
		return nil, err
	}
	return compression.NewReader(content)
}
