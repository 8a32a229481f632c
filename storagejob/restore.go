package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/object"
	"github.com/codehub/gateway/storagejob/tree"
)

// Limits for archives that this job did not make, or that were damaged.
const (
	// maxWindow is the largest zstd window that is accepted. The window decides how
	// much memory the job takes, so an archive must not choose it freely.
	maxWindow = 32 << 20
	// An archive whose .meta does not record the size of its content was not made by
	// this job, or its metadata was lost in a copy. It may unpack to freeExpansion bytes
	// plus maxExpansion times its size. Text compresses by a factor of 3 to 100, a bomb
	// by thousands.
	freeExpansion = 64 << 20
	maxExpansion  = 1000
)

// restore makes the volume equal to the archive (SPEC 7). It reads the archive once,
// into the staging folder, and changes the user's files only after the checksum was
// verified. After a failure before that point the volume is as it was. After a kill,
// the next run continues from the state on disk: see package tree.
func restore(ctx context.Context, s settings, from *object.Archive, rep *reporter) (res contract.Result, err error) {
	info, err := from.Meta(ctx)
	if err != nil {
		return contract.Result{}, err
	}
	volume, err := tree.OpenVolume(s.volume)
	if err != nil {
		return contract.Result{}, err
	}
	defer func() { err = errors.Join(err, volume.Close()) }()
	res = contract.Result{Size: info.Size, SHA256: info.SHA256}

	// A run that was killed after the verification has left everything but the swap.
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
	return res, volume.Swap(ctx, info.SHA256)
}

// unpack reads the archive into the volume's staging folder and verifies its size and
// checksum. It returns the archive's size in bytes. If several things are wrong, it
// reports the cause rather than the consequence: first an error of the store, then a
// wrong checksum, then wrong content.
func unpack(ctx context.Context, s settings, from *object.Archive, info object.Info, volume *tree.Volume, rep *reporter) (int64, error) {
	body, err := from.Download(ctx)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	size := body.Size()
	if size == 0 || info.Size > 0 && size != info.Size {
		return 0, fmt.Errorf("the archive has %d bytes, its .meta says %d: %w", size, info.Size, tree.ErrCorrupt)
	}
	rep.total.Store(size)
	rep.enter(contract.StepUnpack)
	hash := sha256.New()
	raw := io.TeeReader(body, io.MultiWriter(hash, transferWriter{rep}))

	limits := tree.Limits{Bytes: info.Content, KeepFree: s.keepFree}
	if limits.Bytes == 0 {
		limits.Bytes = freeExpansion + maxExpansion*size
	}
	err = decode(ctx, raw, volume, limits, rep)
	if failed := body.Err(); failed != nil {
		return 0, failed // the content only broke because of it
	}
	var refused *tree.RefusedError
	byContent := errors.As(err, &refused) && refused.ByContent
	if err != nil && !byContent && !errors.Is(err, tree.ErrCorrupt) {
		return 0, err
	}
	// Hash the rest even if the content was refused: a wrong checksum explains why. With
	// the right one, what the file system refuses is what the home really held.
	if _, readErr := io.Copy(io.Discard, raw); readErr != nil {
		return 0, readErr
	}
	if sum := hash.Sum(nil); !bytes.Equal(sum, unhex(info.SHA256)) {
		return 0, fmt.Errorf("the archive's sha256 is %x, its .meta says %s: %w", sum, info.SHA256, tree.ErrCorrupt)
	}
	return size, err
}

// decode decompresses an archive into the staging folder. The decoder's memory is
// bounded by maxWindow, and what it writes by the limits.
func decode(ctx context.Context, raw io.Reader, volume *tree.Volume, limits tree.Limits, rep *reporter) error {
	dec, err := zstd.NewReader(raw, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(zstdThreads), zstd.WithDecoderLowmem(true))
	if err != nil {
		return fmt.Errorf("decompressing: %w: %w", tree.ErrCorrupt, err)
	}
	defer dec.Close()
	return volume.Unpack(ctx, dec, limits, &rep.Counter)
}

// unhex decodes a checksum that contract.ParseMeta has accepted, so it cannot fail.
func unhex(sum string) []byte {
	b, _ := hex.DecodeString(sum)
	return b
}
