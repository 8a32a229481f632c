package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"hash/crc64"
	"io"

	"filippo.io/age"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/compression"
	"github.com/codehub/gateway/storagejob/internal/encryption"
	"github.com/codehub/gateway/storagejob/internal/object"
	"github.com/codehub/gateway/storagejob/internal/proof"
	"github.com/codehub/gateway/storagejob/internal/tree"
	"github.com/codehub/gateway/storagejob/usage"
)

// archive makes the archive of the volume, unless the archive is committed already or the volume has not changed since
// the current archive was made. It reads, packs, compresses, encrypts, hashes and uploads in one pass, proves that the
// store has the upload, and commits it by writing the .meta (SPEC 7). After an error no .meta exists, so the archive
// does not count.
func archive(ctx context.Context, s settings, to *object.Archive, rep *reporter) (contract.Result, error) {
	unlock, err := tree.Lock(s.volume)
	if err != nil {
		return contract.Result{}, err
	}
	defer unlock()
	if err := tree.CheckFinished(s.volume, s.operation); err != nil {
		return contract.Result{}, err
	}
	var res contract.Result
	if s.fingerprint != "" {
		rep.enter(contract.StepCompare)
		if res.Fingerprint, err = fingerprintOf(ctx, s.volume, s.operation); err != nil {
			return contract.Result{}, err
		}
		if res.Unchanged = res.Fingerprint == s.fingerprint; res.Unchanged {
			return res, nil
		}
	}
	switch info, err := to.Stat(ctx); {
	case err == nil:
		return contract.Result{Size: info.Size, SHA256: info.SHA256, Done: true}, nil
	case errors.Is(err, object.ErrMissing), errors.Is(err, contract.ErrMalformedMeta):
		// The archive was never made, or an earlier run was killed before the commit. The volume still holds
		// everything: start again.
	default:
		return contract.Result{}, err
	}
	// From here on, nothing under this key counts until Commit.
	if err := s.about("prepare"); err != nil {
		return contract.Result{}, err
	}
	if err := to.Prepare(ctx); err != nil {
		return contract.Result{}, err
	}
	info, verified, err := uploaded(ctx, s, to, rep)
	if err != nil {
		return contract.Result{}, err
	}
	rep.enter(contract.StepCommit)
	if err := s.about("commit"); err != nil {
		return contract.Result{}, err
	}
	if err := to.Commit(ctx, info); err != nil {
		return contract.Result{}, err
	}
	res.Size, res.SHA256, res.Verified = info.Size, info.SHA256, verified
	return res, nil
}

// uploaded returns a proven upload of the volume's content: a new upload, or the upload of an earlier run that was
// killed before its commit. verified reports whether the whole upload was read back.
func uploaded(ctx context.Context, s settings, to *object.Archive,
	rep *reporter) (info object.Info, verified bool, err error) {
	if info, err := earlier(ctx, s, to, rep); err == nil || !errors.Is(err, proof.ErrDiffers) {
		return info, true, err
	}
	if err := s.about("pack"); err != nil {
		return object.Info{}, false, err
	}
	rep.begin(contract.StepArchive, 0) // the archive's size is not known yet
	home, err := usage.Count(ctx, s.volume)
	if err != nil {
		return object.Info{}, false, err
	}
	to.Expect(home.Bytes + home.Files*headerSize)
	up := to.Upload(ctx)
	p, err := pack(ctx, s, up, rep)
	if err == nil {
		err = s.about("end the upload")
	}
	if err == nil {
		rep.enter(contract.StepUpload)
		err = up.Close()
	}
	if err == nil {
		err = s.about("prove the upload")
	}
	if err != nil {
		up.Abort()
		return object.Info{}, false, err
	}
	if s.verify == contract.VerifyChecksum {
		return p.info, false, p.check(ctx, to, rep)
	}
	return p.info, true, p.readBack(ctx, to, rep)
}

// headerSize is the space, in bytes, that an archive needs for a file besides its content. Most files need less.
const headerSize = 2048

// packed describes an upload as it was sent, before the store has confirmed it.
type packed struct {
	info    object.Info
	content proof.Content // of the tar stream in it
	key     age.Identity  // opens the archive if it is encrypted
	crc32   hash.Hash32
	crc64   hash.Hash64
}

// pack writes the compressed archive of the volume to the upload, encrypted if there are recipients, and describes it.
// It does not finish the upload. Its memory does not grow with the volume.
func pack(ctx context.Context, s settings, up *object.Upload, rep *reporter) (packed, error) {
	p := packed{crc32: crc32.NewIEEE(), crc64: crc64.New(crc64NVME)}
	sum := sha256.New()
	to := io.MultiWriter(up, sum, transferWriter{rep})
	if s.verify == contract.VerifyChecksum {
		to = io.MultiWriter(to, p.crc32, p.crc64)
	}
	sealed, key, err := encryption.Encrypt(to, s.keys.recipients)
	if err != nil {
		return packed{}, err
	}
	enc, err := compression.NewWriter(sealed)
	if err != nil {
		return packed{}, err
	}
	stream := proof.NewWriter()
	err = tree.Pack(ctx, s.volume, s.operation, io.MultiWriter(enc, stream), stream.Headers(), &rep.Counter)
	if err != nil {
		enc.Abort() // end its goroutines before the upload is aborted
		return packed{}, err
	}
	if err := errors.Join(enc.Close(), sealed.Close()); err != nil {
		return packed{}, fmt.Errorf("compressing: %w", err)
	}
	p.key, p.content = key, stream.Content(rep.Files.Load(), rep.Bytes.Load())
	// Holes count although the stream does not contain them: a restore uses this number as the limit for the size of
	// all files together.
	p.info = object.Info{Size: up.Size(), Content: p.content.Size + rep.Holes.Load(),
		SHA256: hex.EncodeToString(sum.Sum(nil))}
	return p, nil
}
