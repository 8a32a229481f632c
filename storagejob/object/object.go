// Package object reads and writes one archive in an S3 store: the archive itself
// and, beside it, the ".meta" that commits it (SPEC 7).
package object

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
)

const (
	// attempts is how often one request is tried in all. The operation as a whole is
	// retried by the coordinator (SPEC 1.10).
	attempts = 3
	// silence is how long the store may say nothing before a request counts as failed.
	silence = 60 * time.Second
	// metaSuffix is added to the archive's key.
	metaSuffix = ".meta"
	// metaSize is the user metadata of the .meta that holds the archive's size. It is
	// absent on archives that the coordinator made.
	metaSize = "archive-size"
	// maxMeta bounds what is read of a .meta.
	maxMeta = 4 << 10
)

var (
	// ErrMissing says that the archive or its .meta does not exist.
	ErrMissing = errors.New("archive not found")
	// ErrUnreachable says that the store did not answer, or refused.
	ErrUnreachable = errors.New("object store")
	// ErrMalformed says that a .meta is not one.
	ErrMalformed = errors.New("malformed .meta")
)

// Archive is the place of one archive in a store.
type Archive struct {
	client *s3.Client
	bucket string
	key    string
}

// Open finds the place that a URL "s3://bucket/key" names. Credentials, region and
// endpoint come from the environment as the SDK reads it. No I/O.
func Open(ctx context.Context, url string, pathStyle bool) (*Archive, error) {
	rest, ok := strings.CutPrefix(url, "s3://")
	bucket, key, ok2 := strings.Cut(rest, "/")
	if !ok || !ok2 || bucket == "" || key == "" || strings.HasSuffix(key, "/") {
		return nil, errors.New("the archive's address must look like s3://bucket/path/home.tar.zst")
	}
	// The transport knows no proxy settings of its own beyond the environment's, and
	// waits for nothing without a limit.
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
			// Expected, since the archive has a checksum of its own; not worth a line.
			o.DisableLogOutputChecksumValidationSkipped = true
		}),
		bucket: bucket, key: key,
	}, nil
}

// Info describes a committed archive.
type Info struct {
	Size   int64
	SHA256 string // lower-case hexadecimal
}

// Stat looks for a committed archive: both objects there and, as far as it can be
// told without reading it, belonging together. Otherwise ErrMissing or
// ErrMalformed.
func (a *Archive) Stat(ctx context.Context) (Info, error) {
	head, err := a.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &a.bucket, Key: &a.key})
	if err != nil {
		return Info{}, translate("looking for the archive", err)
	}
	info, err := a.Meta(ctx)
	if err != nil {
		return Info{}, err
	}
	size := aws.ToInt64(head.ContentLength)
	if size == 0 || info.Size > 0 && info.Size != size {
		return Info{}, fmt.Errorf("%w: the archive has %d bytes, not the %d of its .meta", ErrMalformed, size, info.Size)
	}
	info.Size = size
	return info, nil
}

var metaForm = regexp.MustCompile(`^sha256:([0-9a-f]{64})\s*$`)

// Meta reads the .meta. Size is 0 when it does not say.
func (a *Archive) Meta(ctx context.Context) (Info, error) {
	key := a.key + metaSuffix
	out, err := a.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.bucket, Key: &key})
	if err != nil {
		return Info{}, translate("reading the archive's .meta", err)
	}
	defer out.Body.Close()
	text, err := io.ReadAll(io.LimitReader(out.Body, maxMeta))
	if err != nil {
		return Info{}, translate("reading the archive's .meta", err)
	}
	match := metaForm.FindSubmatch(text)
	if match == nil {
		return Info{}, fmt.Errorf("%w: it does not say sha256:{hex}", ErrMalformed)
	}
	// Absent or unreadable is 0: not known.
	size, _ := strconv.ParseInt(out.Metadata[metaSize], 10, 64)
	return Info{Size: size, SHA256: string(match[1])}, nil
}

// Commit writes the .meta. From then on the archive counts.
func (a *Archive) Commit(ctx context.Context, info Info) error {
	key := a.key + metaSuffix
	_, err := a.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &a.bucket, Key: &key,
		Body:        strings.NewReader("sha256:" + info.SHA256),
		ContentType: aws.String("text/plain"),
		Metadata:    map[string]string{metaSize: strconv.FormatInt(info.Size, 10)},
	})
	return translate("writing the archive's .meta", err)
}

// translate gives an error of the store its kind.
func translate(doing string, err error) error {
	if err == nil {
		return nil
	}
	var api smithy.APIError
	// NoSuchBucket is not a missing archive: calling it that would declare data lost
	// because of a wrong setting.
	if errors.As(err, &api) && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NotFound") {
		return fmt.Errorf("%s: %w", doing, ErrMissing)
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnreachable, err)
}
