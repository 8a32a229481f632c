package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/codehub/gateway/storagejob/contract"
)

// Limits of an upload.
const (
	// partSize times maxParts is the largest archive: 156 GiB compressed.
	partSize = 16 << 20
	maxParts = 10_000
	// senders is how many parts are sent at the same time. Together with the part that
	// is being filled they take senders+1 buffers of partSize bytes.
	senders = 2
	// cleanup bounds the abort of an upload that failed or was cancelled.
	cleanup = 5 * time.Second

	contentType = "application/zstd"
)

// Prepare removes what earlier runs left behind: the .meta of an archive that is being
// replaced, and the parts of a killed upload. Without it, an old .meta could commit a
// new archive, and unfinished parts would occupy the bucket forever.
func (a *Archive) Prepare(ctx context.Context) error {
	meta := a.key + contract.MetaSuffix
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

// Upload writes an archive to the store. Nothing is visible under the key until
// Close returns nil. Either Close or Abort must be called.
type Upload struct {
	pipe   *io.PipeWriter
	cancel context.CancelFunc
	size   int64
	done   chan struct{} // closed when err is final
	err    error
}

// Upload starts an upload. A small archive becomes one request, a larger one a
// multipart upload.
func (a *Archive) Upload(ctx context.Context) *Upload {
	manager := transfermanager.New(a.client, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.MultipartUploadThreshold, o.MaxUploadParts = partSize, partSize, maxParts
		o.Concurrency = senders
		o.FailTimeout = cleanup
	})
	ctx, cancel := context.WithCancel(ctx)
	r, w := io.Pipe()
	u := &Upload{pipe: w, cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(u.done)
		defer cancel()
		_, err := manager.UploadObject(ctx, &transfermanager.UploadObjectInput{
			Bucket: &a.bucket, Key: &a.key, Body: r, ContentType: aws.String(contentType),
		})
		u.err = translate("uploading the archive", err)
		r.CloseWithError(u.err) // ends a Write that waits
	}()
	return u
}

// Size returns how many bytes have been written.
func (u *Upload) Size() int64 { return u.size }

// Write implements io.Writer. It waits while all buffers are being sent, and
// returns the error that ended the upload.
func (u *Upload) Write(p []byte) (int, error) {
	if u.size+int64(len(p)) > partSize*maxParts {
		return 0, fmt.Errorf("the archive is larger than %d GiB, the most that %d parts hold", partSize*maxParts>>30, maxParts)
	}
	n, err := u.pipe.Write(p)
	u.size += int64(n)
	return n, err
}

// Close sends the rest and makes the archive appear under its key. After an error
// nothing appears.
func (u *Upload) Close() error {
	u.pipe.Close()
	<-u.done
	return u.err
}

// errAborted ends an upload whose source failed.
var errAborted = errors.New("the upload was aborted")

// Abort ends the upload and removes the parts that were sent, even when the
// upload's context has ended. The next Prepare removes what Abort cannot. After
// Close it does nothing.
func (u *Upload) Abort() {
	u.cancel() // also ends the parts that are being sent
	u.pipe.CloseWithError(errAborted)
	<-u.done
}
