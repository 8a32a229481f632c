package archive

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// MarkerKey is the name, below the prefix, of the object that states who owns the bucket (SPEC 2). Package identity
// owns its content.
const MarkerKey = "codehub.json"

// maxMarker bounds how much of a marker is read.
const maxMarker = 4096

// ErrMarkerChanged means that the marker is not the one to be replaced: another process has written first.
var ErrMarkerChanged = errors.New("another process has written the bucket's marker in the meantime")

// Marker is the marker object as it is in the bucket.
type Marker struct {
	// Content is cut off after 4096 bytes.
	Content []byte
	// ETag identifies this content to [Store.WriteMarker].
	ETag string
}

// ReadMarker returns the marker. The error is [fs.ErrNotExist] if there is no marker, [ErrNoBucket] if there is no
// bucket, or any other error, which says nothing about the marker.
func (s *Store) ReadMarker(ctx context.Context) (Marker, error) {
	const doing = "reading the bucket's marker"
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.opts.Bucket, Key: s.object(MarkerKey)})
	if err != nil {
		return Marker{}, explain(doing, err)
	}
	defer out.Body.Close()
	content, err := io.ReadAll(io.LimitReader(out.Body, maxMarker))
	if err != nil {
		return Marker{}, explain(doing, err)
	}
	return Marker{Content: content, ETag: aws.ToString(out.ETag)}, nil
}

// WriteMarker replaces the marker with the given ETag; an empty ETag means that there is no marker yet. If the marker
// is a different one, nothing is written and the error is [ErrMarkerChanged]. Exactly one of several simultaneous
// writers succeeds.
func (s *Store) WriteMarker(ctx context.Context, content []byte, etag string) error {
	input := &s3.PutObjectInput{
		Bucket: &s.opts.Bucket, Key: s.object(MarkerKey), ContentType: aws.String("application/json"),
		Body: bytes.NewReader(content), ContentLength: aws.Int64(int64(len(content))),
	}
	if etag == "" {
		input.IfNoneMatch = aws.String("*")
	} else {
		input.IfMatch = &etag
	}
	_, err := s.client.PutObject(ctx, input)
	var answer *awshttp.ResponseError
	if errors.As(err, &answer) {
		switch answer.HTTPStatusCode() {
		// 404: the marker to be replaced is gone.
		case http.StatusPreconditionFailed, http.StatusConflict, http.StatusNotFound:
			return fmt.Errorf("writing the bucket's marker: %w", ErrMarkerChanged)
		}
	}
	if err != nil {
		return explain("writing the bucket's marker", err)
	}
	return nil
}
