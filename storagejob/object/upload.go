package object

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"golang.org/x/sync/errgroup"
)

const (
	// partSize times maxParts is the largest archive: 156 GiB compressed.
	partSize = 16 << 20
	maxParts = 10_000
	// senders is how many parts are under way at once. With the one being filled
	// that makes three part buffers, 48 MiB.
	senders = 2
	// cleanup bounds the abort of an upload after its context has ended.
	cleanup = 5 * time.Second
)

// Prepare removes what would lie about an upload to come: the .meta of an archive
// that is being replaced, and parts that a killed upload left behind.
func (a *Archive) Prepare(ctx context.Context) error {
	meta := a.key + metaSuffix
	if _, err := a.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &a.bucket, Key: &meta}); err != nil {
		if err := translate("removing an outdated .meta", err); !errors.Is(err, ErrMissing) {
			return err
		}
	}
	pages := s3.NewListMultipartUploadsPaginator(a.client, &s3.ListMultipartUploadsInput{Bucket: &a.bucket, Prefix: &a.key})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return translate("listing unfinished uploads", err)
		}
		for _, upload := range page.Uploads {
			if aws.ToString(upload.Key) != a.key {
				continue
			}
			_, err := a.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
				Bucket: &a.bucket, Key: &a.key, UploadId: upload.UploadId,
			})
			var gone *types.NoSuchUpload
			if err != nil && !errors.As(err, &gone) {
				return translate("removing an unfinished upload", err)
			}
		}
	}
	return nil
}

// Upload is an archive on its way to the store, as an io.Writer. Parts are held in
// memory because only what can be read again can be sent again, and be signed
// without TLS.
type Upload struct {
	a     *Archive
	outer context.Context // of the whole upload
	ctx   context.Context // of the parts under way; ends with the first that fails
	group *errgroup.Group
	free  chan []byte // part buffers that nobody uses
	part  []byte      // being filled
	id    *string     // nil until the first full part
	parts []types.CompletedPart
	size  int64
}

// Upload starts an upload. Nothing is visible under the key until Close returns
// nil. Either Close or Abort must be called.
func (a *Archive) Upload(ctx context.Context) *Upload {
	u := &Upload{a: a, outer: ctx, free: make(chan []byte, senders+1)}
	u.group, u.ctx = errgroup.WithContext(ctx)
	for range senders + 1 {
		u.free <- nil // allocated when first used: most homes are small
	}
	return u
}

// Size is how many bytes have been written.
func (u *Upload) Size() int64 { return u.size }

// Write takes in bytes. It waits while all buffers are being sent.
func (u *Upload) Write(p []byte) (int, error) {
	written := 0
	for len(p) > 0 {
		if len(u.part) == partSize {
			if err := u.send(); err != nil {
				return written, err
			}
		}
		if u.part == nil {
			if err := u.take(); err != nil {
				return written, err
			}
		}
		n := min(len(p), partSize-len(u.part))
		if need := len(u.part) + n; need > cap(u.part) {
			u.part = append(make([]byte, 0, grown(need)), u.part...)
		}
		u.part = append(u.part, p[:n]...)
		p, written, u.size = p[n:], written+n, u.size+int64(n)
	}
	return written, nil
}

// grown is the capacity of a buffer for so many bytes: little for the many small
// homes, else a whole part at once, because growing leaves garbage as large.
func grown(need int) int {
	const little = 1 << 20
	if need <= little {
		return little
	}
	return partSize
}

// take gets a free buffer, or the error of the part that failed.
func (u *Upload) take() error {
	select {
	case buf := <-u.free:
		if buf == nil {
			buf = make([]byte, 0, grown(0))
		}
		u.part = buf[:0]
		return nil
	case <-u.ctx.Done():
		return u.failure()
	}
}

// failure is why the upload's context has ended.
func (u *Upload) failure() error {
	if err := u.group.Wait(); err != nil {
		return err
	}
	return context.Cause(u.ctx)
}

// send starts the sending of the part that is full.
func (u *Upload) send() error {
	if u.id == nil {
		out, err := u.a.client.CreateMultipartUpload(u.ctx, &s3.CreateMultipartUploadInput{
			Bucket: &u.a.bucket, Key: &u.a.key, ContentType: aws.String(contentType),
			ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
		})
		if err != nil {
			return translate("starting the upload", err)
		}
		u.id = out.UploadId
		// Never moved: the senders write into it.
		u.parts = make([]types.CompletedPart, 0, maxParts)
	}
	if len(u.parts) == maxParts {
		return fmt.Errorf("the archive is larger than %d GiB, the most that %d parts hold", partSize*maxParts>>30, maxParts)
	}
	number, body := int32(len(u.parts)+1), u.part
	u.parts = append(u.parts, types.CompletedPart{PartNumber: &number})
	done := &u.parts[number-1]
	u.part = nil
	u.group.Go(func() error {
		out, err := u.a.client.UploadPart(u.ctx, &s3.UploadPartInput{
			Bucket: &u.a.bucket, Key: &u.a.key, UploadId: u.id, PartNumber: &number,
			Body: bytes.NewReader(body), ChecksumAlgorithm: types.ChecksumAlgorithmCrc32,
		})
		if err != nil {
			return translate(fmt.Sprintf("uploading part %d", number), err)
		}
		done.ETag, done.ChecksumCRC32 = out.ETag, out.ChecksumCRC32
		u.free <- body
		return nil
	})
	return nil
}

const contentType = "application/zstd"

// Close sends the rest and makes the archive appear under its key.
func (u *Upload) Close() error {
	if u.id == nil {
		_, err := u.a.client.PutObject(u.outer, &s3.PutObjectInput{
			Bucket: &u.a.bucket, Key: &u.a.key, Body: bytes.NewReader(u.part), ContentType: aws.String(contentType),
		})
		return translate("uploading the archive", err)
	}
	if len(u.part) > 0 {
		if err := u.send(); err != nil {
			return err
		}
	}
	if err := u.group.Wait(); err != nil {
		return err
	}
	_, err := u.a.client.CompleteMultipartUpload(u.outer, &s3.CompleteMultipartUploadInput{
		Bucket: &u.a.bucket, Key: &u.a.key, UploadId: u.id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.parts},
	})
	return translate("completing the upload", err)
}

// Abort removes what has been sent. It works after the upload's context has ended,
// too; what it cannot remove, the next Prepare does.
func (u *Upload) Abort() error {
	u.group.Go(func() error { return context.Canceled }) // stops parts under way
	_ = u.group.Wait()                                   // the first error has been reported already
	if u.id == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.outer), cleanup)
	defer cancel()
	_, err := u.a.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &u.a.bucket, Key: &u.a.key, UploadId: u.id})
	return translate("removing the unfinished upload", err)
}
