package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/codehub/gateway/storagejob/contract"
)

// Limits of an upload.
const (
	// senders is how many parts are sent at the same time. Together with the part being filled, senders+1 parts take
	// memory or space in the scratch folder.
	senders = 2
	// cleanup bounds the abort of a failed or cancelled upload.
	cleanup = 5 * time.Second
	// answerLimit is how long the store may take to confirm a part that was sent in full, after the upload has failed
	// or was cancelled.
	answerLimit = 3 * time.Second
)

// Prepare removes what earlier runs left behind: the .meta of an archive that is being replaced, and the parts of a
// killed upload. Otherwise, an old .meta could commit a new archive, and unfinished parts would occupy the bucket
// forever. With a grant it removes only the .meta: the grant does not permit listing, so the coordinator's garbage
// collection removes the parts.
func (a *Archive) Prepare(ctx context.Context) error {
	meta := a.key + contract.MetaSuffix
	if _, err := a.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &a.bucket, Key: &meta}); err != nil {
		if err := a.explain("removing an outdated .meta", err); !errors.Is(err, ErrMissing) {
			return err
		}
	}
	if a.grant != nil {
		return nil
	}
	pages := s3.NewListMultipartUploadsPaginator(a.client,
		&s3.ListMultipartUploadsInput{Bucket: &a.bucket, Prefix: &a.key})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return a.explain("listing unfinished uploads", err)
		}
		for _, upload := range page.Uploads {
			if aws.ToString(upload.Key) != a.key {
				continue
			}
			id := aws.ToString(upload.UploadId)
			if err := a.abort(ctx, id); err != nil {
				return err
			}
			a.killed = append(a.killed, id)
		}
	}
	return nil
}

// abort removes the parts of an unfinished upload. It is not an error if the upload does not exist.
func (a *Archive) abort(ctx context.Context, id string) error {
	_, err := a.client.AbortMultipartUpload(ctx,
		&s3.AbortMultipartUploadInput{Bucket: &a.bucket, Key: &a.key, UploadId: &id})
	var gone *types.NoSuchUpload
	if errors.As(err, &gone) {
		return nil
	}
	return a.explain("removing an unfinished upload", err)
}

// Close aborts the granted upload if it was not used: a small archive needs none. It aborts the uploads of killed runs
// a second time, because a part that the store was still receiving when Prepare removed its upload may have remained.
// It must be called when the job is done with the archive. It reports no errors: the coordinator's garbage collection
// removes what remains.
func (a *Archive) Close() {
	unused := a.killed
	if a.grant != nil && a.grant.Upload != nil && !a.ended {
		unused = append(unused, a.grant.Upload.ID)
	}
	a.killed, a.ended = nil, true
	ctx, cancel := context.WithTimeout(context.Background(), cleanup)
	defer cancel()
	for _, id := range unused {
		_ = a.abort(ctx, id)
	}
}

// Upload writes an archive to the store. Nothing is visible under the key until Close returns nil. Either Close or
// Abort must be called. It is not safe for concurrent use.
type Upload struct {
	a      *Archive
	ctx    context.Context
	cancel context.CancelCauseFunc
	// requests is the context of the parts: see sendPart.
	requests context.Context
	cut      context.CancelFunc
	size     int64
	part     *part // being filled
	// free holds memory buffers for parts, nil for those that were not needed yet. Its length also bounds how many
	// parts are sent at the same time.
	free    chan []byte
	sending sync.WaitGroup
	id      string // of the multipart upload; empty before it begins
	ended   bool

	mu   sync.Mutex // guards the fields below
	sent []types.CompletedPart
}

// Expect announces the size in bytes of the home to archive, which determines the sizes of the archive's parts. Without
// it, the sizes are those of a small home. It must be called before [Archive.Upload].
func (a *Archive) Expect(home int64) { a.parts = contract.PartsFor(home) }

// Upload starts an upload. A small archive becomes one request, a larger one a multipart upload with the part sizes of
// [contract.Parts].
func (a *Archive) Upload(ctx context.Context) *Upload {
	u := &Upload{a: a, free: make(chan []byte, senders+1)}
	u.ctx, u.cancel = context.WithCancelCause(ctx)
	u.requests, u.cut = context.WithCancel(context.WithoutCancel(ctx))
	context.AfterFunc(u.ctx, func() { time.AfterFunc(answerLimit, u.cut) })
	for range senders + 1 {
		u.free <- nil
	}
	return u
}

// Size returns how many bytes have been written.
func (u *Upload) Size() int64 { return u.size }

// Write implements io.Writer. It waits while all buffers are being sent, and
// returns the error that ended the upload.
func (u *Upload) Write(p []byte) (written int, err error) {
	if most := u.a.parts.Max(); u.size+int64(len(p)) > most {
		return 0, fmt.Errorf("the archive is larger than %d GiB, the most that %d parts hold for a home that was measured "+
			"before", most>>30, contract.MaxParts)
	}
	for len(p) > 0 {
		if err := u.next(); err != nil {
			return written, err
		}
		n, err := u.part.Write(p[:min(int64(len(p)), u.part.room())])
		p, written, u.size = p[n:], written+n, u.size+int64(n)
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// next makes room in the part that is being filled: it sends a full part and begins a new one.
func (u *Upload) next() error {
	number := 1
	if u.part != nil {
		if u.part.room() > 0 {
			return nil
		}
		number = u.part.number + 1
		if err := u.send(); err != nil {
			return err
		}
	}
	select {
	case buffer := <-u.free:
		made, err := newPart(number, u.a.parts.Size(number), buffer, u.a.scratch)
		if err != nil {
			u.free <- buffer
			return err
		}
		u.part = made
		return nil
	case <-u.ctx.Done():
		return context.Cause(u.ctx)
	}
}

// send sends the filled part in the background. An error cancels the upload.
func (u *Upload) send() error {
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	if err := u.begin(); err != nil {
		return err
	}
	full := u.part
	u.part = nil
	u.sending.Go(func() {
		defer func() { u.free <- full.release() }()
		sent, err := u.sendPart(full)
		if err != nil {
			u.cancel(err)
			return
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		u.sent = append(u.sent, sent)
	})
	return nil
}

// begin begins the multipart upload, unless it has already begun.
func (u *Upload) begin() error {
	if u.id != "" {
		return nil
	}
	if granted := u.a.grant; granted != nil {
		if granted.Upload == nil {
			return fmt.Errorf("uploading the archive: %w: no multipart upload was granted", errNotGranted)
		}
		u.id = granted.Upload.ID
		return nil
	}
	in := &s3.CreateMultipartUploadInput{Bucket: &u.a.bucket, Key: &u.a.key,
		ContentType: aws.String(contract.ArchiveType)}
	if u.a.client.Options().RequestChecksumCalculation == aws.RequestChecksumCalculationWhenSupported {
		in.ChecksumAlgorithm = types.ChecksumAlgorithmCrc32 // the client's own for the parts; a store compares the two
	}
	made, err := u.a.client.CreateMultipartUpload(u.ctx, in)
	if err != nil {
		return u.a.explain("beginning the upload of the archive", err)
	}
	u.id = aws.ToString(made.UploadId)
	return nil
}

// sendPart sends a part. The client retries where that may help, with growing pauses.
//
// When the upload ends, the rest of the part is not sent, so that the store refuses it. If the store already has the
// whole part, sendPart waits for its answer: a part that a store accepts just after the upload was aborted may stay
// there forever.
func (u *Upload) sendPart(p *part) (types.CompletedPart, error) {
	number := int32(p.number)
	in := &s3.UploadPartInput{
		Bucket: &u.a.bucket, Key: &u.a.key, UploadId: &u.id, PartNumber: &number, Body: cutBody{p.content(), u.ctx},
		ContentLength: aws.Int64(p.size),
	}
	var err error
	if in.ContentMD5, err = u.a.md5(p); err != nil {
		return types.CompletedPart{}, err
	}
	out, err := u.a.client.UploadPart(u.requests, in)
	if err != nil {
		return types.CompletedPart{}, u.a.explain(fmt.Sprintf("uploading part %d of the archive", number), err)
	}
	return types.CompletedPart{ETag: out.ETag, PartNumber: &number, ChecksumCRC32: out.ChecksumCRC32}, nil
}

// cutBody is a body that fails once the context has ended, unless all of it was read.
type cutBody struct {
	io.ReadSeeker
	ctx context.Context
}

// Read implements io.Reader.
func (b cutBody) Read(p []byte) (int, error) {
	n, err := b.ReadSeeker.Read(p)
	if n > 0 && b.ctx.Err() != nil {
		return 0, &aws.RequestCanceledError{Err: context.Cause(b.ctx)} // not retried
	}
	return n, err
}

// Close sends the rest and makes the archive appear under its key. After an error nothing appears.
func (u *Upload) Close() error {
	if u.ended {
		return nil
	}
	if u.id == "" && u.ctx.Err() == nil {
		if err := u.sendWhole(); err != nil {
			return err
		}
		u.finish()
		return nil
	}
	if u.part != nil {
		if err := u.send(); err != nil {
			return err
		}
	}
	u.sending.Wait()
	if u.ctx.Err() != nil {
		return u.a.explain("uploading the archive", context.Cause(u.ctx))
	}
	slices.SortFunc(u.sent, func(a, b types.CompletedPart) int { return int(*a.PartNumber - *b.PartNumber) })
	_, err := u.a.client.CompleteMultipartUpload(u.ctx, &s3.CompleteMultipartUploadInput{
		Bucket: &u.a.bucket, Key: &u.a.key, UploadId: &u.id,
		MultipartUpload: &types.CompletedMultipartUpload{Parts: u.sent},
	})
	if err != nil {
		return u.a.explain("completing the upload of the archive", err)
	}
	u.a.ended = true
	u.finish()
	return nil
}

// sendWhole sends an archive that fits into one part.
func (u *Upload) sendWhole() error {
	whole := u.part
	if whole == nil {
		whole = &part{}
	}
	in := &s3.PutObjectInput{
		Bucket: &u.a.bucket, Key: &u.a.key, ContentType: aws.String(contract.ArchiveType), Body: whole.content(),
		ContentLength: aws.Int64(whole.size),
	}
	var err error
	if in.ContentMD5, err = u.a.md5(whole); err != nil {
		return err
	}
	_, err = u.a.client.PutObject(u.ctx, in)
	return u.a.explain("uploading the archive", err)
}

// errAborted ends an upload whose source failed.
var errAborted = errors.New("the upload was aborted")

// Abort ends the upload and removes the parts that were sent, even if the upload's context has ended. The next Prepare
// removes what Abort cannot. After Close it does nothing.
func (u *Upload) Abort() {
	if u.ended {
		return
	}
	u.cancel(errAborted) // also cuts off the parts that are being sent
	u.finish()
	if u.id == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(u.ctx), cleanup)
	defer cancel()
	if u.a.abort(ctx, u.id) == nil {
		u.a.ended = true
	}
}

// finish releases the upload's resources.
func (u *Upload) finish() {
	u.sending.Wait()
	u.cancel(errAborted)
	u.cut()
	if u.part != nil {
		u.part.release()
		u.part = nil
	}
	u.ended = true
}
