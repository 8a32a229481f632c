package archive

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// Upload is a multipart upload that was neither completed nor aborted. An example is the upload of a killed storage
// job: the next run of the job has a different key, and so does not complete it. Its parts occupy the store without
// being listed as objects.
type Upload struct {
	// Key is the name of the object to be uploaded, without the prefix.
	Key string
	// ID distinguishes the uploads of one key.
	ID string
	// Initiated is when it was begun, by the store's clock.
	Initiated time.Time
}

// codeNoUploads is the code with which some stores report that there are no uploads.
const codeNoUploads = "NoSuchUpload"

// ListUploads calls page with the unfinished uploads under the prefix, page by page. It returns the first error of
// page.
func (s *Store) ListUploads(ctx context.Context, page func([]Upload) error) error {
	return s.listUploads(ctx, "", page)
}

// listUploads does the same as ListUploads, for the keys that begin with key.
func (s *Store) listUploads(ctx context.Context, key string, page func([]Upload) error) error {
	pages := s3.NewListMultipartUploadsPaginator(s.client, &s3.ListMultipartUploadsInput{
		Bucket: &s.opts.Bucket, Prefix: s.object(key),
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if code, _ := answer(err); code == codeNotImplemented || code == codeNoUploads {
			return nil // the store has no such listing, or there are none
		}
		if err != nil {
			return explain("listing unfinished uploads", err)
		}
		uploads := make([]Upload, 0, len(out.Uploads))
		for _, u := range out.Uploads {
			key, ok := strings.CutPrefix(aws.ToString(u.Key), s.opts.Prefix)
			if !ok {
				return fmt.Errorf("listing unfinished uploads: the store returned %q, which is not under %q",
					aws.ToString(u.Key), s.opts.Prefix)
			}
			uploads = append(uploads, Upload{
				Key: key, ID: aws.ToString(u.UploadId), Initiated: aws.ToTime(u.Initiated),
			})
		}
		if len(uploads) == 0 {
			continue
		}
		if err := page(uploads); err != nil {
			return err
		}
	}
	return nil
}

// AbortUpload removes the parts of an unfinished upload. If the upload has ended in the meantime, that counts as
// aborted.
func (s *Store) AbortUpload(ctx context.Context, u Upload) error {
	_, err := s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &s.opts.Bucket, Key: s.object(u.Key), UploadId: &u.ID,
	})
	if err == nil {
		return nil
	}
	if err = explain("aborting the unfinished upload of "+u.Key, err); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
