package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/codehub/gateway/storagejob/internal/object"
)

const (
	// aheadBuffers of aheadBytes each are what a download may be ahead of the decoder.
	aheadBuffers = 4
	aheadBytes   = 512 << 10
)

// ahead downloads an archive and hashes it in a goroutine of its own, while what was
// downloaded before is decoded. It is not safe for concurrent use.
type ahead struct {
	size   int64 // of the archive
	cancel context.CancelFunc
	done   chan struct{}   // closed when the goroutine has ended
	free   chan []byte     // of aheadBytes each
	full   chan downloaded // closed at the end of the archive

	current downloaded
	rest    []byte // of current that has not been read
	hash    hash.Hash
	failed  error // of the store, which Read has returned
}

// downloaded is the next piece of the archive, or the error in its place.
type downloaded struct {
	piece []byte
	err   error
}

// download opens the archive, which begins the step. The caller must call close.
func download(ctx context.Context, from *object.Archive, step string, rep *reporter) (*ahead, error) {
	ctx, cancel := context.WithCancel(ctx)
	body, err := from.Download(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	a := &ahead{
		size: body.Size(), cancel: cancel, done: make(chan struct{}), hash: sha256.New(),
		free: make(chan []byte, aheadBuffers), full: make(chan downloaded, aheadBuffers+1), // never full
	}
	rep.begin(step, a.size)
	for range aheadBuffers {
		a.free <- make([]byte, aheadBytes)
	}
	go func() {
		defer close(a.done)
		defer close(a.full)
		defer body.Close()
		for {
			var buf []byte
			select {
			case buf = <-a.free:
			case <-ctx.Done():
				a.full <- downloaded{err: context.Cause(ctx)}
				return
			}
			n, err := body.Read(buf)
			_, _ = a.hash.Write(buf[:n]) // never fails
			rep.transferred.Add(int64(n))
			if n > 0 {
				a.full <- downloaded{piece: buf[:n]}
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				a.full <- downloaded{err: body.Err()}
				return
			}
		}
	}()
	return a, nil
}

// Read implements io.Reader.
func (a *ahead) Read(p []byte) (int, error) {
	if len(a.rest) == 0 {
		if a.failed != nil {
			return 0, a.failed
		}
		if a.current.piece != nil {
			a.free <- a.current.piece[:aheadBytes]
		}
		a.current = <-a.full // zero when it is closed
		a.rest, a.failed = a.current.piece, a.current.err
		if a.failed != nil {
			return 0, a.failed
		}
		if a.rest == nil {
			return 0, io.EOF
		}
	}
	n := copy(p, a.rest)
	a.rest = a.rest[n:]
	return n, nil
}

// finish reads what is left and returns the checksum of all of it, in hexadecimal. The error
// is the store's, or the end of the context.
func (a *ahead) finish() (sum string, err error) {
	if _, err := io.Copy(io.Discard, a); err != nil {
		return "", err
	}
	return hex.EncodeToString(a.hash.Sum(nil)), nil
}

// close ends the download and waits for the goroutine.
func (a *ahead) close() {
	a.cancel()
	<-a.done
}
