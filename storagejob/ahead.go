package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io"

	"github.com/klauspost/readahead"

	"github.com/codehub/gateway/storagejob/internal/object"
)

const (
	// A download may be aheadBuffers buffers of aheadBytes each ahead of the decoder.
	aheadBuffers = 4
	aheadBytes   = 512 << 10
)

// ahead downloads an archive and hashes it in its own goroutine, while the caller decodes the part received so far. It
// is not safe for concurrent use.
type ahead struct {
	size   int64 // of the archive
	cancel context.CancelFunc
	reader io.ReadCloser
	hash   hash.Hash
	failed error // error of the store that Read has returned
}

// download opens the archive and begins the step. The caller must call close.
func download(ctx context.Context, from *object.Archive, step string, rep *reporter) (*ahead, error) {
	ctx, cancel := context.WithCancel(ctx)
	body, err := from.Download(ctx)
	if err != nil {
		cancel()
		return nil, err
	}
	a := &ahead{size: body.Size(), cancel: cancel, hash: sha256.New()}
	rep.begin(step, a.size)
	a.reader, err = readahead.NewReadCloserSize(struct {
		io.Reader
		io.Closer
	}{io.TeeReader(body, io.MultiWriter(a.hash, transferWriter{rep})), body}, aheadBuffers, aheadBytes)
	if err != nil {
		cancel()
		return nil, errors.Join(err, body.Close())
	}
	return a, nil
}

// Read implements io.Reader.
func (a *ahead) Read(p []byte) (int, error) {
	n, err := a.reader.Read(p)
	if err != nil && err != io.EOF { //nolint:errorlint // an error of the store may wrap io.EOF
		a.failed = err
	}
	return n, err
}

// finish reads the rest and returns the checksum of the whole archive in hexadecimal. Its error comes from the store or
// from the context.
func (a *ahead) finish() (sum string, err error) {
	if _, err := io.Copy(io.Discard, a); err != nil {
		return "", err
	}
	return hex.EncodeToString(a.hash.Sum(nil)), nil
}

// close ends the download and waits for its goroutine.
func (a *ahead) close() {
	a.cancel()
	_ = a.reader.Close() // closing the download never fails
}
