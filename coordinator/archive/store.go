package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// dialTimeout and requestTimeout bound one attempt. Nothing here moves an
	// archive's content: every request is small.
	dialTimeout    = 5 * time.Second
	requestTimeout = 30 * time.Second
	// attempts and maxBackoff bound the retries of one call.
	attempts   = 4
	maxBackoff = 2 * time.Second
	// metaLimit is more than a commit marker can be long.
	metaLimit = 1024
)

// checksumForm is what a commit marker's text begins with.
const checksumForm = "sha256:"

// Store is the bucket. It is safe for concurrent use.
type Store struct {
	opts   Options
	client *s3.Client
}

// Info is what is known of a complete archive.
type Info struct {
	// Size is the archive's length in bytes.
	Size int64
	// SHA256 is the archive's checksum in hexadecimal, as its commit marker says;
	// empty when the marker is not of the known form.
	SHA256 string
}

// New returns the store. It performs no I/O.
func New(opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.orDefault()
	load := []func(*config.LoadOptions) error{
		config.WithRegion(opts.Region),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(requestTimeout).
			WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout })),
		config.WithRetryer(func() aws.Retryer {
			return retry.NewStandard(func(o *retry.StandardOptions) {
				o.MaxAttempts = attempts
				o.MaxBackoff = maxBackoff
				// The bucket is shared by everything here: one call that is retried often
				// must not use up the right of the others to be retried.
				o.RateLimiter = ratelimit.None
			})
		}),
	}
	if opts.AccessKey != "" {
		load = append(load, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(opts.AccessKey, opts.SecretKey, "")))
	}
	cfg, err := config.LoadDefaultConfig(context.Background(), load...)
	if err != nil {
		return nil, fmt.Errorf("configuring the object store: %w", err)
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = opts.PathStyle
		if opts.Endpoint != "" {
			o.BaseEndpoint = aws.String(opts.Endpoint)
		}
	})
	return &Store{opts: opts, client: client}, nil
}

// EnsureBucket makes the bucket when there is none.
func (s *Store) EnsureBucket(ctx context.Context) error {
	_, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.opts.Bucket})
	if err == nil {
		return nil
	}
	var missing *types.NotFound
	if !errors.As(err, &missing) {
		return fmt.Errorf("looking for bucket %s: %w", s.opts.Bucket, err)
	}
	input := &s3.CreateBucketInput{Bucket: &s.opts.Bucket}
	if s.opts.Region != DefaultRegion {
		// Amazon refuses its own default region here.
		input.CreateBucketConfiguration = &types.CreateBucketConfiguration{
			LocationConstraint: types.BucketLocationConstraint(s.opts.Region),
		}
	}
	_, err = s.client.CreateBucket(ctx, input)
	var owned *types.BucketAlreadyOwnedByYou
	if err != nil && !errors.As(err, &owned) {
		return fmt.Errorf("making bucket %s: %w", s.opts.Bucket, err)
	}
	return nil
}

// Stat returns what is known of the archive under key. Unless the archive and its
// commit marker both exist, the error is [fs.ErrNotExist]; any other error means
// that nothing is known.
func (s *Store) Stat(ctx context.Context, key string) (Info, error) {
	// The marker first, and with GET: only its answer tells a missing object from a
	// missing bucket, and a wrong bucket must not look like lost data.
	sum, err := s.marker(ctx, key)
	if err != nil {
		return Info{}, err
	}
	head, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.opts.Bucket, Key: s.object(key)})
	var missing *types.NotFound
	if errors.As(err, &missing) {
		return Info{}, fmt.Errorf("archive %s: %w", key, fs.ErrNotExist)
	}
	if err != nil {
		return Info{}, fmt.Errorf("looking for archive %s: %w", key, err)
	}
	return Info{Size: aws.ToInt64(head.ContentLength), SHA256: sum}, nil
}

// marker reads the checksum out of the archive's commit marker.
func (s *Store) marker(ctx context.Context, key string) (string, error) {
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &s.opts.Bucket, Key: s.object(key + workspace.MetaSuffix)})
	var missing *types.NoSuchKey
	if errors.As(err, &missing) {
		return "", fmt.Errorf("commit marker of archive %s: %w", key, fs.ErrNotExist)
	}
	if err != nil {
		return "", fmt.Errorf("reading the commit marker of archive %s: %w", key, err)
	}
	defer out.Body.Close()
	text, err := io.ReadAll(io.LimitReader(out.Body, metaLimit))
	if err != nil {
		return "", fmt.Errorf("reading the commit marker of archive %s: %w", key, err)
	}
	sum, ok := strings.CutPrefix(strings.TrimSpace(string(text)), checksumForm)
	if !ok || len(sum) != 64 || strings.Trim(sum, "0123456789abcdef") != "" {
		sum = ""
	}
	return sum, nil
}

// JobEnv returns the environment with which a storage job reaches the archive
// under key. It holds the credentials and MUST NOT be logged.
func (s *Store) JobEnv(key string) []string {
	env := []string{
		"ARCHIVE_URL=s3://" + s.opts.Bucket + "/" + *s.object(key),
		"AWS_REGION=" + s.opts.Region,
		"S3_PATH_STYLE=" + strconv.FormatBool(s.opts.PathStyle),
	}
	if s.opts.AccessKey != "" {
		env = append(env, "AWS_ACCESS_KEY_ID="+s.opts.AccessKey, "AWS_SECRET_ACCESS_KEY="+s.opts.SecretKey)
	}
	if s.opts.JobEndpoint != "" {
		env = append(env, "AWS_ENDPOINT_URL_S3="+s.opts.JobEndpoint)
	}
	return env
}

// object is the name of the object under key.
func (s *Store) object(key string) *string { return aws.String(s.opts.Prefix + key) }
