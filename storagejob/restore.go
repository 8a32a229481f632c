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

	"github.com/codehub/gateway/storagejob/object"
	"github.com/codehub/gateway/storagejob/tree"
)

// maxWindow is the largest zstd window that is accepted. An archive made with a
// larger one would make the job's memory its own choice.
const maxWindow = 32 << 20

// restore makes the volume equal to the archive. The archive is read once, into
// the staging folder; the user's files change only after its checksum was right.
func restore(ctx context.Context, s settings, from *object.Archive, rep *reporter) (res result, err error) {
	info, err := from.Meta(ctx)
	if err != nil {
		return result{}, err
	}
	volume, err := tree.OpenVolume(s.volume)
	if err != nil {
		return result{}, err
	}
	defer func() { err = errors.Join(err, volume.Close()) }()
	res = result{Size: info.Size, SHA256: info.SHA256}

	done, err := volume.Verified(info.SHA256)
	if err != nil {
		return result{}, err
	}
	if !done {
		if res.Size, err = unpack(ctx, from, info, volume, rep); err != nil {
			// The volume gets the room back and is as it was.
			return result{}, errors.Join(err, volume.Discard())
		}
		if err := volume.Commit(info.SHA256); err != nil {
			return result{}, err
		}
	}
	res.Done = done
	rep.enter(stepSwap)
	return res, volume.Swap(ctx, info.SHA256)
}

// unpack reads the archive into the volume's staging folder and verifies it. It
// returns the archive's size.
func unpack(ctx context.Context, from *object.Archive, info object.Info, volume *tree.Volume, rep *reporter) (int64, error) {
	body, err := from.Download(ctx)
	if err != nil {
		return 0, err
	}
	defer body.Close()
	if size := body.Size(); size == 0 || info.Size > 0 && size != info.Size {
		return 0, fmt.Errorf("the archive has %d bytes, its .meta says %d: %w", size, info.Size, tree.ErrCorrupt)
	}
	rep.total.Store(body.Size())
	rep.enter(stepUnpack)
	hash := sha256.New()
	raw := io.TeeReader(body, io.MultiWriter(hash, countWriter{rep}))

	err = decode(ctx, raw, volume, rep)
	if failed := body.Err(); failed != nil {
		return 0, failed // whatever went wrong with the content is its consequence
	}
	if err != nil && !errors.Is(err, tree.ErrCorrupt) {
		return 0, err
	}
	// Also after a refusal: a wrong checksum says more than what it led to.
	if _, readErr := io.Copy(io.Discard, raw); readErr != nil {
		return 0, readErr
	}
	if sum := hash.Sum(nil); !bytes.Equal(sum, unhex(info.SHA256)) {
		return 0, fmt.Errorf("the archive's sha256 is %x, its .meta says %s: %w", sum, info.SHA256, tree.ErrCorrupt)
	}
	return body.Size(), err
}

// decode unpacks a compressed archive and reads the stream to its end.
func decode(ctx context.Context, raw io.Reader, volume *tree.Volume, rep *reporter) error {
	dec, err := zstd.NewReader(raw, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(zstdThreads), zstd.WithDecoderLowmem(true))
	if err != nil {
		return fmt.Errorf("decompressing: %w: %w", tree.ErrCorrupt, err)
	}
	defer dec.Close()
	if err := volume.Unpack(ctx, dec, 0, &rep.Counter); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, dec); err != nil {
		return fmt.Errorf("decompressing: %w: %w", tree.ErrCorrupt, err)
	}
	return nil
}

// unhex decodes a checksum whose form has been checked.
func unhex(sum string) []byte {
	b, _ := hex.DecodeString(sum)
	return b
}
