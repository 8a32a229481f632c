package main

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc64"
	"io"

	"filippo.io/age"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/fingerprint"
	"github.com/codehub/gateway/storagejob/internal/object"
	"github.com/codehub/gateway/storagejob/internal/proof"
	"github.com/codehub/gateway/storagejob/internal/tree"
)

// errUnproven says that the store does not have the upload. The archive does not count, and the next run uploads it
// again.
var errUnproven = errors.New("the object store does not have the uploaded archive, so the archive does not count and " +
	"the volume stays")

// crc64NVME is the checksum that S3 stores compute for whole objects.
var crc64NVME = crc64.MakeTable(0x9a6c9329ac4bc9b5)

// readBack verifies an upload by reading it back: the bytes must be those sent, and decompress, entry by entry,
// to the packed content.
func (p packed) readBack(ctx context.Context, from *object.Archive, rep *reporter) error {
	up, err := download(ctx, from, contract.StepVerify, rep)
	if err != nil {
		return unproven(err)
	}
	defer up.close()
	if size := up.size; size != p.info.Size {
		return fmt.Errorf("%w: it has %d bytes instead of %d", errUnproven, size, p.info.Size)
	}
	got, wrong := proof.Content{}, error(nil)
	if stream, err := open(up, p.identities()...); err != nil {
		wrong = err
	} else {
		got, wrong = proof.Read(ctx, stream)
		stream.Close()
	}
	sum, err := up.finish()
	switch {
	case err != nil:
		return err
	case sum != p.info.SHA256:
		return fmt.Errorf("%w: its sha256 is %s instead of %s", errUnproven, sum, p.info.SHA256)
	case wrong != nil:
		return fmt.Errorf("%w: it cannot be unpacked: %w", errUnproven, wrong)
	case got != p.content:
		return fmt.Errorf("%w: it holds %d entries with %d bytes, CRC-32C %08x, and the sha256 of their list is "+
			"%x, instead of %d entries with %d bytes, %08x and %x", errUnproven,
			got.Entries, got.Bytes, got.CRC32C, got.Listing, p.content.Entries, p.content.Bytes, p.content.CRC32C,
			p.content.Listing)
	}
	return nil
}

// identities returns the keys that open the upload.
func (p packed) identities() []age.Identity {
	if p.key == nil {
		return nil
	}
	return []age.Identity{p.key}
}

// check compares the store's report about an upload with the sent data. The store verified the checksum of each part
// when the part arrived.
func (p packed) check(ctx context.Context, from *object.Archive, rep *reporter) error {
	rep.begin(contract.StepVerify, 0)
	stored, err := from.Stored(ctx)
	if err != nil {
		return unproven(err)
	}
	if stored.Size != p.info.Size {
		return fmt.Errorf("%w: it has %d bytes instead of %d", errUnproven, stored.Size, p.info.Size)
	}
	for name, c := range map[string]struct {
		reported string
		sum      []byte
	}{
		"CRC-32":     {stored.CRC32, p.crc32.Sum(nil)},
		"CRC-64NVME": {stored.CRC64NVME, p.crc64.Sum(nil)},
	} {
		if want := base64.StdEncoding.EncodeToString(c.sum); c.reported != "" && c.reported != want {
			return fmt.Errorf("%w: its %s is %s instead of %s", errUnproven, name, c.reported, want)
		}
	}
	return nil
}

// unproven translates an error that occurred while looking for an upload. If the upload is missing although the store
// has just acknowledged it, nothing is proven.
func unproven(err error) error {
	if errors.Is(err, object.ErrMissing) {
		return fmt.Errorf("%w: it is missing", errUnproven)
	}
	return err
}

// earlier compares the content of the volume with the upload of an earlier run, which was killed before its commit. It
// compares byte by byte, up to the first difference. It also returns [proof.ErrDiffers] if the upload is missing, is
// encrypted, or has to be encrypted: only the earlier run had the key for that file.
func earlier(ctx context.Context, s settings, from *object.Archive, rep *reporter) (object.Info, error) {
	if len(s.keys.recipients) > 0 {
		return object.Info{}, proof.ErrDiffers
	}
	up, err := download(ctx, from, contract.StepVerify, rep)
	if errors.Is(err, object.ErrMissing) {
		return object.Info{}, proof.ErrDiffers
	}
	if err != nil {
		return object.Info{}, err
	}
	defer up.close()
	stream, err := open(up)
	if err != nil {
		if up.failed != nil {
			return object.Info{}, up.failed
		}
		return object.Info{}, fmt.Errorf("%w: %w", proof.ErrDiffers, err)
	}
	var count tree.Counter
	same := proof.Compare(stream)
	if err = tree.Pack(ctx, s.volume, s.operation, same, io.Discard, &count); err == nil {
		err = same.Close()
	}
	stream.Close() // it reads ahead
	if up.failed != nil {
		return object.Info{}, up.failed // the content is broken only because of it
	}
	if err != nil {
		return object.Info{}, err
	}
	sum, err := up.finish()
	if err != nil {
		return object.Info{}, err
	}
	rep.Files.Store(count.Files.Load())
	rep.Bytes.Store(count.Bytes.Load())
	rep.Skipped.Store(count.Skipped.Load())
	rep.Holes.Store(count.Holes.Load())
	return object.Info{Size: up.size, Content: same.Size() + count.Holes.Load(), SHA256: sum}, nil
}

// fingerprintOf returns the fingerprint of the volume, or an empty string if it cannot be trusted. It is empty if
// something cannot be read; the archive job will notice that itself.
func fingerprintOf(ctx context.Context, volume, operation string) (string, error) {
	sum, err := fingerprint.Of(ctx, volume, tree.StagingName(operation))
	if ctx.Err() != nil {
		return "", context.Cause(ctx)
	}
	if err != nil {
		return "", nil
	}
	return sum, nil
}
