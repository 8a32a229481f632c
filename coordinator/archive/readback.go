package archive

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/codehub/gateway/storagejob/contract"
)

// readBackPart is how much of an archive one request reads. Each part is small enough to arrive within the time limit
// of a request, and is retried by itself.
const readBackPart = 4 << 20

// Content describes an archive's content as it was read back.
type Content struct {
	// Size is in bytes; SHA256 is the checksum of the object in lower-case hexadecimal.
	Size   int64
	SHA256 string
	// Recorded is the checksum in the commit marker, or empty if the marker is malformed.
	Recorded string
}

// ReadBack reads the whole archive under key, a few MiB at a time, and describes its content. After each part it calls
// pace with the number of bytes; an error of pace ends it. Its errors are those of [Store.Stat], except that a
// malformed commit marker is not an error.
func (s *Store) ReadBack(ctx context.Context, key string, pace func(n int) error) (Content, error) {
	var c Content
	var err error
	if c.Recorded, err = s.readMarker(ctx, key); err != nil && !errors.Is(err, contract.ErrMalformedMeta) {
		return Content{}, err
	}
	doing := "reading archive " + key + " back"
	head, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.opts.Bucket, Key: s.object(key)})
	if err != nil {
		return Content{}, explain(doing, err)
	}
	c.Size = aws.ToInt64(head.ContentLength)
	sum := sha256.New()
	part := make([]byte, min(c.Size, readBackPart))
	for at := int64(0); at < c.Size; at += int64(len(part)) {
		part = part[:min(c.Size-at, readBackPart)]
		if err := s.readPart(ctx, key, head.ETag, at, part); err != nil {
			return Content{}, explain(doing, err)
		}
		sum.Write(part) // never fails
		if err := pace(len(part)); err != nil {
			return Content{}, err
		}
	}
	c.SHA256 = hex.EncodeToString(sum.Sum(nil))
	return c, nil
}

// readPart fills part from the object with that tag, starting at byte at.
func (s *Store) readPart(ctx context.Context, key string, tag *string, at int64, part []byte) error {
	last := at + int64(len(part)) - 1
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.opts.Bucket, Key: s.object(key), IfMatch: tag,
		Range: aws.String(fmt.Sprintf("bytes=%d-%d", at, last)),
	})
	if err != nil {
		return err
	}
	defer out.Body.Close()
	if n := aws.ToInt64(out.ContentLength); n != int64(len(part)) {
		return fmt.Errorf("the store was asked for %d bytes from byte %d, but sends %d", len(part), at, n)
	}
	_, err = io.ReadFull(out.Body, part)
	return err
}

// headerLimit is how much of an encrypted archive may be its header, which has a few hundred bytes per recipient.
const headerLimit = 64 << 10

// Locked reports whether the archive under key is encrypted and no key of the settings opens it. It reads only the
// header. Its errors are those of [Store.Stat].
func (s *Store) Locked(ctx context.Context, key string) (bool, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.opts.Bucket, Key: s.object(key), Range: aws.String(fmt.Sprintf("bytes=0-%d", headerLimit-1)),
	})
	doing := "reading the header of archive " + key
	var api smithy.APIError
	switch {
	case errors.As(err, &api) && api.ErrorCode() == "InvalidRange": // it is empty
		return false, nil
	case err != nil:
		return false, explain(doing, err)
	}
	defer out.Body.Close()
	header, err := io.ReadAll(io.LimitReader(out.Body, headerLimit))
	if err != nil {
		return false, explain(doing, err)
	}
	return s.settings.Load().Keys.locked(header), nil
}
