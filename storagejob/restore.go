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

const (
	// maxWindow is the largest zstd window that is accepted. The window decides how
	// much memory the job takes, so an archive must not choose it freely.
	maxWindow = 32 << 20
	// An archive whose .meta does not record the size of its content was not made by
	// this job. It may unpack to freeExpansion bytes and maxExpansion times its size.
	// Text compresses 3 to 100 times; a bomb, thousands of times.
	freeExpansion = 64 << 20
	maxExpansion  = 1000
)

// restore makes the volume equal to the archive. It reads the archive once, into
// the staging folder, and changes the user's files only after the checksum was
// verified.
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

	done, err := volume.Verified(info.SHA256)
	if err != nil {
		return contract.Result{}, err
	}
	if !done {
		if res.Size, err = unpack(ctx, s, from, info, volume, rep); err != nil {
			// Leave the volume as it was, and free the room.
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

// unpack reads the archive into the volume's staging folder and verifies it. It
// returns the archive's size.
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
		return 0, failed // it also explains what is wrong with the content
	}
	if err != nil && !errors.Is(err, tree.ErrCorrupt) {
		return 0, err
	}
	// Hash the rest even of an archive that was refused: a wrong checksum explains
	// more than its consequences do.
	if _, readErr := io.Copy(io.Discard, raw); readErr != nil {
		return 0, readErr
	}
	if sum := hash.Sum(nil); !bytes.Equal(sum, unhex(info.SHA256)) {
		return 0, fmt.Errorf("the archive's sha256 is %x, its .meta says %s: %w", sum, info.SHA256, tree.ErrCorrupt)
	}
	return size, err
}

// decode unpacks a compressed archive.
func decode(ctx context.Context, raw io.Reader, volume *tree.Volume, limits tree.Limits, rep *reporter) error {
	dec, err := zstd.NewReader(raw, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(zstdThreads), zstd.WithDecoderLowmem(true))
	if err != nil {
		return fmt.Errorf("decompressing: %w: %w", tree.ErrCorrupt, err)
	}
	defer dec.Close()
	return volume.Unpack(ctx, dec, limits, &rep.Counter)
}

// unhex decodes a checksum that contract.ParseMeta has accepted.
func unhex(sum string) []byte {
	b, _ := hex.DecodeString(sum)
	return b
}
