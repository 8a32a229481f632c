package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Download reads an archive from its beginning to its end. A connection that
// breaks or falls silent is replaced by one that goes on at the same byte of the
// same object. An error that Read returns other than io.EOF stays; Err tells it.
type Download struct {
	a      *Archive
	ctx    context.Context
	etag   *string
	size   int64
	offset int64
	tries  int // of going on, since the last byte that came

	body   io.ReadCloser
	cancel context.CancelFunc
	watch  *time.Timer // ends a body that falls silent
	err    error
}

// Download opens the archive; ErrMissing when it is not there.
func (a *Archive) Download(ctx context.Context) (*Download, error) {
	d := &Download{a: a, ctx: ctx}
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// Size is the archive's size.
func (d *Download) Size() int64 { return d.size }

// Err is the error that ended reading early, if it was the store's.
func (d *Download) Err() error { return d.err }

func (d *Download) open() error {
	ctx, cancel := context.WithCancel(d.ctx)
	in := &s3.GetObjectInput{Bucket: &d.a.bucket, Key: &d.a.key}
	if d.offset > 0 {
		in.Range, in.IfMatch = aws.String(fmt.Sprintf("bytes=%d-", d.offset)), d.etag
	}
	out, err := d.a.client.GetObject(ctx, in)
	if err != nil {
		cancel()
		return translate("reading the archive", err)
	}
	if d.etag == nil {
		d.etag, d.size = out.ETag, aws.ToInt64(out.ContentLength)
	}
	d.body, d.cancel = out.Body, cancel
	d.watch = time.AfterFunc(silence, cancel)
	return nil
}

// Read implements io.Reader.
func (d *Download) Read(p []byte) (int, error) {
	for d.err == nil {
		if d.offset >= d.size {
			return 0, io.EOF
		}
		if d.body == nil {
			if d.err = d.open(); d.err != nil {
				break
			}
		}
		d.watch.Reset(silence)
		n, err := d.body.Read(p)
		d.watch.Stop()
		if n > 0 {
			d.offset += int64(n)
			d.tries = 0
			return n, nil
		}
		if err == nil {
			continue
		}
		d.drop()
		if d.ctx.Err() != nil {
			d.err = context.Cause(d.ctx)
			break
		}
		if d.tries++; d.tries == attempts {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // the store sent less than it announced
			}
			// Not wrapped: a body that was given up for its silence says "canceled", and
			// nobody has canceled the job.
			d.err = fmt.Errorf("reading the archive at byte %d of %d: %w: %v", d.offset, d.size, ErrUnreachable, err)
		}
	}
	return 0, d.err
}

func (d *Download) drop() {
	if d.body == nil {
		return
	}
	d.watch.Stop()
	d.body.Close()
	d.cancel()
	d.body = nil
}

// Close ends the download.
func (d *Download) Close() error {
	d.drop()
	return nil
}
