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

	"github.com/codehub/gateway/storagejob/object"
	"github.com/codehub/gateway/storagejob/tree"
)

const (
	// zstdWindow is how far back the compressor looks for repetitions, and bounds its
	// memory together with zstdThreads.
	zstdWindow = 4 << 20
	// zstdThreads is fixed, not the machine's number of processors, so that the job
	// takes no more memory on a large one. Finding matches and coding them run in
	// parallel. Compressing whole sections in parallel was measured on two
	// processors: not faster, and 137 MiB instead of 81.
	zstdThreads = 2
)

// archive makes the archive from the volume, unless it exists. One pass: read, tar,
// zstd, sha256, upload. The .meta comes last; without it nothing counts.
func archive(ctx context.Context, s settings, to *object.Archive, rep *reporter) (result, error) {
	switch info, err := to.Stat(ctx); {
	case err == nil:
		return result{Size: info.Size, SHA256: info.SHA256, Done: true}, nil
	case errors.Is(err, object.ErrMissing), errors.Is(err, object.ErrMalformed):
		// A killed upload. The volume is the truth: make the archive anew.
	default:
		return result{}, err
	}
	unlock, err := lock(s.volume)
	if err != nil {
		return result{}, err
	}
	defer unlock()
	if err := to.Prepare(ctx); err != nil {
		return result{}, err
	}
	rep.enter(stepArchive)
	up := to.Upload(ctx)
	info, err := pack(ctx, s.volume, up, rep)
	if err == nil {
		rep.enter(stepCommit)
		err = up.Close()
	}
	if err != nil {
		if abort := up.Abort(); abort != nil {
			// Not wrapped: the kind of failure is the first one's.
			err = fmt.Errorf("%w (%v)", err, abort)
		}
		return result{}, err
	}
	if err := to.Commit(ctx, info); err != nil {
		return result{}, err
	}
	return result{Size: info.Size, SHA256: info.SHA256}, nil
}

// pack writes the compressed archive of the volume.
func pack(ctx context.Context, volume string, up *object.Upload, rep *reporter) (object.Info, error) {
	hash := sha256.New()
	enc, err := zstd.NewWriter(io.MultiWriter(up, hash, countWriter{rep}),
		zstd.WithEncoderLevel(zstd.SpeedDefault), zstd.WithWindowSize(zstdWindow),
		zstd.WithEncoderConcurrency(zstdThreads), zstd.WithEncoderCRC(false))
	if err != nil {
		return object.Info{}, fmt.Errorf("starting the compressor: %w", err)
	}
	err = tree.Pack(ctx, volume, enc, &rep.Counter)
	// Closed in any case, so that its goroutines end before the upload is given up.
	if closing := enc.Close(); err == nil && closing != nil {
		err = fmt.Errorf("compressing: %w", closing)
	}
	if err != nil {
		return object.Info{}, err
	}
	return object.Info{Size: up.Size(), SHA256: hex.EncodeToString(hash.Sum(nil))}, nil
}

// lock keeps other storage jobs from the volume while it is read.
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
