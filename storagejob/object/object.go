// Package object reads and writes one archive in an S3 store: the archive itself
// and, beside it, the ".meta" that commits it (SPEC 7).
//
// It owns the requests to the store, their retries, and the kinds of their errors.
// It must not interpret an archive's content, and must touch no object but these two.
package object

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"

	"github.com/codehub/gateway/storagejob/contract"
)

// Limits of the requests.
const (
	// attempts is how often each request is tried in total. The coordinator retries the
	// operation as a whole (SPEC 1, contract 10).
	attempts = 3
	// silence is how long a download waits for the next byte before it reconnects.
	silence = 60 * time.Second
)

// The kinds of errors of the store that a job reports with exit codes of their own.
var (
	// ErrMissing says that the archive or its .meta does not exist.
	ErrMissing = errors.New("archive not found")
	// ErrUnreachable says that the store did not answer, or refused.
	ErrUnreachable = errors.New("object store")
)

// Archive is one archive in a store, whether it exists yet or not.
type Archive struct {
	client  *s3.Client
	bucket  string
	key     string
	silence time.Duration // the constant; tests shorten it
}

// Open returns the archive at a [contract.ArchiveURL]. Credentials, region and
// endpoint come from the environment, as the SDK reads it. It does no I/O.
func Open(ctx context.Context, url string, pathStyle bool) (*Archive, error) {
	bucket, key, err := contract.ParseArchiveURL(url)
	if err != nil {
		return nil, err
	}
	// Every wait of the transport is bounded: a job that hangs would keep its volume.
	client := awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = 10 * time.Second }).
		WithTransportOptions(func(t *http.Transport) {
			// Completing a large upload may take the store minutes.
			t.ResponseHeaderTimeout = 5 * time.Minute
			t.TLSHandshakeTimeout = 10 * time.Second
		})
	// The defaults of LoadDefaultConfig include checksums of every upload, which
	// s3.New alone leaves off.
	cfg, err := config.LoadDefaultConfig(ctx, config.WithRetryMaxAttempts(attempts), config.WithHTTPClient(client))
	if err != nil {
		return nil, fmt.Errorf("reading the store's settings: %w", err)
	}
	return &Archive{
		client: s3.NewFromConfig(cfg, func(o *s3.Options) {
			o.UsePathStyle = pathStyle
			// The archive has a checksum of its own, so this is expected.
			o.DisableLogOutputChecksumValidationSkipped = true
		}),
		bucket: bucket, key: key, silence: silence,
	}, nil
}

// Info describes a committed archive.
type Info struct {
	// Size is the archive's size in bytes.
	Size int64
	// Content is the size of the tar stream in it, in bytes.
	Content int64
	// SHA256 is the archive's checksum in lower-case hexadecimal.
	SHA256 string
}

// Stat checks that the archive is committed: the archive and its .meta exist and,
// as far as can be told without reading the archive, belong together. Otherwise
// the error is ErrMissing or [contract.ErrMalformedMeta].
func (a *Archive) Stat(ctx context.Context) (Info, error) {
	head, err := a.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &a.bucket, Key: &a.key})
	if err != nil {
		return Info{}, translate("checking the archive", err)
	}
	info, err := a.Meta(ctx)
	if err != nil {
		return Info{}, err
	}
	size := aws.ToInt64(head.ContentLength)
	if size == 0 || info.Size > 0 && info.Size != size {
		return Info{}, fmt.Errorf("%w (the archive has %d bytes, and its .meta says %d)", contract.ErrMalformedMeta, size, info.Size)
	}
	info.Size = size
	return info, nil
}

// Meta reads the .meta without looking at the archive. A size that it does not record
// is 0. The error is ErrMissing, [contract.ErrMalformedMeta] or ErrUnreachable.
func (a *Archive) Meta(ctx context.Context) (Info, error) {
	key := a.key + contract.MetaSuffix
	out, err := a.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.bucket, Key: &key})
	if err != nil {
		return Info{}, translate("reading the archive's .meta", err)
	}
	defer out.Body.Close()
	sum, err := contract.ReadMeta(out.Body)
	if errors.Is(err, contract.ErrMalformedMeta) {
		return Info{}, err
	}
	if err != nil {
		return Info{}, translate("reading the archive's .meta", err)
	}
	return Info{
		Size:    recorded(out.Metadata[contract.MetaArchiveSize]),
		Content: recorded(out.Metadata[contract.MetaContentSize]),
		SHA256:  sum,
	}, nil
}

// recorded parses a size from an object's metadata. A missing or malformed one is 0,
// which means unknown.
func recorded(text string) int64 {
	size, err := strconv.ParseInt(text, 10, 64)
	if err != nil || size < 0 {
		return 0
	}
	return size
}

// Commit writes the .meta, after which the archive counts. It must be called only after
// [Upload.Close] has returned nil. Repeating it is harmless.
func (a *Archive) Commit(ctx context.Context, info Info) error {
	key := a.key + contract.MetaSuffix
	_, err := a.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &a.bucket, Key: &key,
		Body:        strings.NewReader(contract.FormatMeta(info.SHA256)),
		ContentType: aws.String("text/plain"),
		Metadata: map[string]string{
			contract.MetaArchiveSize: strconv.FormatInt(info.Size, 10),
			contract.MetaContentSize: strconv.FormatInt(info.Content, 10),
		},
	})
	return translate("writing the archive's .meta", err)
}

// translate marks an error of the store as ErrMissing or ErrUnreachable.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	var api smithy.APIError
	// NoSuchBucket is not a missing archive: otherwise a wrong setting would look like
	// lost data.
	if errors.As(err, &api) && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NotFound") {
		return fmt.Errorf("%s: %w", doing, ErrMissing)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnreachable, err)
}
