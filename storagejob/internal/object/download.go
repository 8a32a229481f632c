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

// Download reads an archive from beginning to end. When a connection breaks or is silent for too long, it opens another
// one at the same byte of the same object. Any error except io.EOF is final. It is not safe for concurrent use.
//
// The SDK's transfer manager does less at a higher cost. It fetches a section into memory, delivers it, and only then
// fetches the next one: on one machine this took 6 times as long, and twice the memory. It does not notice a silent
// connection.
type Download struct {
	a      *Archive
	ctx    context.Context
	etag   *string
	size   int64
	offset int64
	tries  int // failed attempts since the last byte

	body   io.ReadCloser
	cancel context.CancelFunc
	watch  *time.Timer // cancels a body that is silent for too long
	err    error
}

// Download opens the archive. The error is ErrMissing if it does not exist. The caller must call Close.
func (a *Archive) Download(ctx context.Context) (*Download, error) {
	d := &Download{a: a, ctx: ctx}
	if err := d.open(); err != nil {
		return nil, err
	}
	return d, nil
}

// Size returns the archive's size in bytes, as the store announced it.
func (d *Download) Size() int64 { return d.size }

// open requests the archive from the current byte on. Every request but the first contains the object's ETag: if the
// archive was replaced meanwhile, the store refuses, so that two archives are never mixed.
func (d *Download) open() error {
	ctx, cancel := context.WithCancel(d.ctx)
	in := &s3.GetObjectInput{Bucket: &d.a.bucket, Key: &d.a.key}
	if d.offset > 0 {
		in.Range, in.IfMatch = aws.String(fmt.Sprintf("bytes=%d-", d.offset)), d.etag
	}
	out, err := d.a.client.GetObject(ctx, in)
	if err != nil {
		cancel()
		return d.a.explain("reading the archive", err)
	}
	if d.etag == nil {
		d.etag, d.size = out.ETag, aws.ToInt64(out.ContentLength)
	}
	d.body, d.cancel = out.Body, cancel
	d.watch = time.AfterFunc(d.a.silence, cancel)
	return nil
}

// Read implements io.Reader. It gives up after a number of attempts in a row that bring no byte; every byte that
// arrives restarts the count.
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
		d.watch.Reset(d.a.silence)
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
			// Not wrapped: a body that was cancelled because it was silent fails with context.Canceled, although the
			// job was not cancelled.
			d.err = fmt.Errorf("reading the archive at byte %d of %d: %w: %v", d.offset, d.size, ErrUnreachable, err)
		}
	}
	return 0, d.err
}

// drop closes the current connection, if there is one.
func (d *Download) drop() {
	if d.body == nil {
		return
	}
	d.watch.Stop()
	d.body.Close()
	d.cancel()
	d.body = nil
}

// Close ends the download. It always returns nil.
func (d *Download) Close() error {
	d.drop()
	return nil
}
