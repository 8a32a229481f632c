package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/codehub/gateway/coordinator/workspace"
)

// Object is an object under the prefix: an archive, a commit marker, or something unknown.
type Object struct {
	// Key is the name without the prefix.
	Key string
	// Size is in bytes.
	Size int64
	// LastModified is when the object was written, by the store's clock.
	LastModified time.Time
}

// List calls page with every object under the prefix, page by page, so that the memory that it needs does not grow with
// their number. It returns the first error of page. After an error the listing is incomplete: unlisted objects may
// exist.
func (s *Store) List(ctx context.Context, page func([]Object) error) error {
	return s.listBelow(ctx, "", page)
}

// listBelow does the same as List, for the keys that begin with folder.
func (s *Store) listBelow(ctx context.Context, folder string, page func([]Object) error) error {
	pages := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{
		Bucket: &s.opts.Bucket, Prefix: s.object(folder),
	})
	for pages.HasMorePages() {
		out, err := pages.NextPage(ctx)
		if err != nil {
			return explain("listing archives", err)
		}
		objects := make([]Object, 0, len(out.Contents))
		for _, o := range out.Contents {
			key, ok := strings.CutPrefix(aws.ToString(o.Key), s.opts.Prefix)
			if !ok {
				return fmt.Errorf("listing archives: the store returned %q, which is not under %q", aws.ToString(o.Key),
					s.opts.Prefix)
			}
			objects = append(objects, Object{
				Key: key, Size: aws.ToInt64(o.Size), LastModified: aws.ToTime(o.LastModified),
			})
		}
		if len(objects) == 0 {
			continue
		}
		if err := page(objects); err != nil {
			return err
		}
	}
	return nil
}

// Versions returns the complete archives of one workspace, newest first by the store's clock. The caller, who knows the
// row, sets Current.
func (s *Store) Versions(ctx context.Context, id workspace.ID) ([]workspace.ArchiveVersion, error) {
	var found []workspace.ArchiveVersion
	var pairs Pairs
	err := s.listBelow(ctx, string(id)+"/", func(page []Object) error {
		for _, o := range page {
			if v, complete := pairs.Next(o); complete {
				found = append(found, v)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	NewestFirst(found)
	return found, nil
}

// Pairs finds the complete archives in a listing, in which the commit marker follows its archive.
type Pairs struct{ archive Object }

// Next takes the next object of the listing. If the object is the commit marker that completes an archive, it returns
// that archive.
func (p *Pairs) Next(o Object) (v workspace.ArchiveVersion, complete bool) {
	switch key, _, ok := ParseKey(o.Key); {
	case ok && key == o.Key:
		p.archive = o
	case ok && key == p.archive.Key:
		return workspace.ArchiveVersion{Key: key, Size: p.archive.Size, Modified: p.archive.LastModified}, true
	}
	return v, false
}

// NewestFirst sorts archives by the times at which they were written.
func NewestFirst(versions []workspace.ArchiveVersion) {
	slices.SortStableFunc(versions, func(a, b workspace.ArchiveVersion) int { return b.Modified.Compare(a.Modified) })
}

// deleteBatch is how many objects one request may delete.
const deleteBatch = 1000

// Delete removes the objects under keys; missing ones count as removed. failed holds the error of each object that may
// still exist. err is set if a whole request failed; failed then also contains all keys that were not tried.
func (s *Store) Delete(ctx context.Context, keys []string) (failed map[string]error, err error) {
	failed = make(map[string]error)
	for len(keys) > 0 {
		n := min(deleteBatch, len(keys))
		if err := s.deleteSome(ctx, keys[:n], failed); err != nil {
			err = explain(fmt.Sprintf("deleting %d objects", n), err)
			for _, key := range keys {
				failed[key] = err
			}
			return failed, err
		}
		keys = keys[n:]
	}
	return failed, nil
}

// deleteSome sends one request and adds the objects that the store did not delete to failed. If it returns an error,
// the result is unknown for all of them.
func (s *Store) deleteSome(ctx context.Context, keys []string, failed map[string]error) error {
	objects := make([]types.ObjectIdentifier, len(keys))
	for i, key := range keys {
		objects[i].Key = s.object(key)
	}
	out, err := s.client.DeleteObjects(ctx, &s3.DeleteObjectsInput{
		Bucket: &s.opts.Bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
	})
	if err != nil {
		return err
	}
	for _, e := range out.Errors {
		key := strings.TrimPrefix(aws.ToString(e.Key), s.opts.Prefix)
		failed[key] = errors.New(aws.ToString(e.Code) + ": " + aws.ToString(e.Message))
	}
	return nil
}
