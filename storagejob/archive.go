package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/object"
	"github.com/codehub/gateway/storagejob/tree"
)

// Settings of the compressor.
const (
	// zstdWindow is how far back the compressor looks for repetitions. Together with
	// zstdThreads it bounds the compressor's memory.
	zstdWindow = 4 << 20
	// zstdThreads does not depend on the number of processors, so that the job takes
	// no more memory on a large machine. Finding matches and coding them run in
	// parallel. Compressing whole sections in parallel was measured on two
	// processors: it was not faster and took 56 MiB more.
	zstdThreads = 2
)

// archive makes the archive of the volume, unless it is committed already. It reads,
// packs, compresses, hashes and uploads in one pass, and commits by writing the .meta
// (SPEC 7). After an error the upload is aborted and no .meta exists, so the archive
// does not count.
func archive(ctx context.Context, s settings, to *object.Archive, rep *reporter) (contract.Result, error) {
	switch info, err := to.Stat(ctx); {
	case err == nil:
		return contract.Result{Size: info.Size, SHA256: info.SHA256, Done: true}, nil
	case errors.Is(err, object.ErrMissing), errors.Is(err, contract.ErrMalformedMeta):
		// Never made, or an earlier run was killed before the commit. The volume still
		// holds everything: start again.
	default:
		return contract.Result{}, err
	}
	unlock, err := lock(s.volume)
	if err != nil {
		return contract.Result{}, err
	}
	defer unlock()
	// From here on nothing under this key counts until Commit.
	if err := to.Prepare(ctx); err != nil {
		return contract.Result{}, err
	}
	rep.enter(contract.StepArchive)
	up := to.Upload(ctx)
	info, err := pack(ctx, s.volume, up, rep)
	if err == nil {
		rep.enter(contract.StepCommit)
		err = up.Close()
	}
	if err != nil {
		up.Abort()
		return contract.Result{}, err
	}
	if err := to.Commit(ctx, info); err != nil {
		return contract.Result{}, err
	}
	return contract.Result{Size: info.Size, SHA256: info.SHA256}, nil
}

// pack writes the compressed archive of the volume to the upload and returns its
// description. It does not finish the upload. Memory does not grow with the volume.
func pack(ctx context.Context, volume string, up *object.Upload, rep *reporter) (object.Info, error) {
	hash := sha256.New()
	enc, err := zstd.NewWriter(io.MultiWriter(up, hash, transferWriter{rep}),
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(zstdWindow),
		zstd.WithEncoderConcurrency(zstdThreads), zstd.WithEncoderCRC(false))
	if err != nil {
		return object.Info{}, fmt.Errorf("starting the compressor: %w", err)
	}
	content := &countWriter{w: enc}
	err = tree.Pack(ctx, volume, content, &rep.Counter)
	// Close it in any case, so that its goroutines end before the upload is aborted.
	if closing := enc.Close(); err == nil && closing != nil {
		err = fmt.Errorf("compressing: %w", closing)
	}
	if err != nil {
		return object.Info{}, err
	}
	return object.Info{Size: up.Size(), Content: content.n, SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// countWriter counts the bytes that it passes on: the size of the tar stream.
type countWriter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *countWriter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// lock keeps other storage jobs away from the volume until unlock is called. It fails
// with [tree.ErrBusy] at once instead of waiting. The kernel releases the lock of a
// process that was killed. On a file system without locks it succeeds: there, only
// the backend keeps a second job away (SPEC 12.4).
func lock(volume string) (unlock func() error, err error) {
	f, err := os.Open(volume)
	if err != nil {
		return nil, fmt.Errorf("opening the volume: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, tree.ErrBusy
	}
	return f.Close, nil
}
