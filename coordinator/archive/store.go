package archive

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go/logging"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// dialTimeout and requestTimeout bound one attempt. Nothing here transfers an archive's content: every request is
// small.
const (
	dialTimeout    = 5 * time.Second
	requestTimeout = 30 * time.Second
)

// Store reads and writes the archives in one bucket. It is safe for concurrent use.
type Store struct {
	opts     Options
	client   *s3.Client
	settings atomic.Pointer[Settings]
	clock    storeClock
}

// Info describes a complete archive.
type Info struct {
	// Size is the archive's length in bytes.
	Size int64
	// Modified is when the archive was written, by the store's clock.
	Modified time.Time
	// SHA256 is the checksum in the commit marker, in lower-case hexadecimal, or empty if the marker is malformed.
	SHA256 string
}

// New returns the store. It does no I/O.
func New(opts Options) (*Store, error) {
	if err := opts.Validate(); err != nil {
		return nil, err
	}
	opts = opts.orDefault()
	trusted, err := trust(opts.CA)
	if err != nil {
		return nil, err
	}
	s := &Store{opts: opts}
	load := []func(*config.LoadOptions) error{
		config.WithRegion(opts.Region),
		// The SDK would write to standard error. The errors contain everything that matters.
		config.WithLogger(logging.Nop{}),
		config.WithHTTPClient(awshttp.NewBuildableClient().WithTimeout(requestTimeout).WithTransportOptions(trusted).
			WithDialerOptions(func(d *net.Dialer) { d.Timeout = dialTimeout })),
		config.WithRetryer(newRetryer),
	}
	if opts.AccessKey != "" {
		load = append(load, config.WithCredentialsProvider(
			credentials.NewStaticCredentialsProvider(opts.AccessKey, opts.SecretKey, "")))
	}
	cfg, err := config.LoadDefaultConfig(context.Background(), load...)
	if err != nil {
		return nil, fmt.Errorf("configuring the object store: %w", err)
	}
	s.client = s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = opts.PathStyle
		// Commit markers and the bucket's marker may have been written without a checksum.
		o.ResponseChecksumValidation = aws.ResponseChecksumValidationWhenRequired
		o.HTTPClient = counted(wrapped(o.HTTPClient, opts.Transport), opts.Metrics)
		encrypt(o, opts.ServerSideEncryption())
		s.clock.watch(o)
		if opts.Endpoint != "" {
			o.BaseEndpoint = aws.String(opts.Endpoint)
		}
	})
	s.Apply(DefaultSettings())
	return s, nil
}

// Apply changes the settings for all grants and archives created from now on.
func (s *Store) Apply(settings Settings) { s.settings.Store(&settings) }

// wrapped returns a client that sends the requests of client through wrap.
func wrapped(client aws.HTTPClient, wrap func(http.RoundTripper) http.RoundTripper) aws.HTTPClient {
	sdk, ok := client.(*awshttp.BuildableClient)
	if wrap == nil || !ok {
		return client
	}
	return &http.Client{
		Transport: wrap(sdk.GetTransport()), Timeout: requestTimeout,
		// Like the SDK: follow only redirects that keep the method.
		CheckRedirect: func(r *http.Request, _ []*http.Request) error {
			if code := r.Response.StatusCode; code != http.StatusTemporaryRedirect &&
				code != http.StatusPermanentRedirect {
				return http.ErrUseLastResponse
			}
			return nil
		},
	}
}

// EnsureBucket creates the bucket if it does not exist. Several processes may call it at the same time. An unreadable
// bucket is an error.
func (s *Store) EnsureBucket(ctx context.Context) error {
	_, err := s.client.HeadBucket(ctx, &s3.HeadBucketInput{Bucket: &s.opts.Bucket})
	if err == nil {
		return nil
	}
	var missing *types.NotFound
	if !errors.As(err, &missing) {
		return explain("checking bucket "+s.opts.Bucket, err)
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
		return explain("creating bucket "+s.opts.Bucket, err)
	}
	return nil
}

// Stat describes the archive under key. If the archive or its commit marker does not exist, the error is
// [fs.ErrNotExist]. If both exist but the marker is malformed, so that a restore would refuse the archive, Stat returns
// the description and [contract.ErrMalformedMeta] with [workspace.ReasonArchiveCorrupted]. Any other error says nothing
// about the archive: if its reason is [workspace.ReasonUnreachable], the store is away; otherwise the store refuses,
// and the error says what to check.
func (s *Store) Stat(ctx context.Context, key string) (Info, error) {
	// The marker comes first, with GET. Only that answer distinguishes a missing object from a missing bucket, and a
	// wrong bucket must not look like lost data.
	sum, malformed := s.readMarker(ctx, key)
	if malformed != nil && !errors.Is(malformed, contract.ErrMalformedMeta) {
		return Info{}, malformed
	}
	head, err := s.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &s.opts.Bucket, Key: s.object(key)})
	if err != nil {
		return Info{}, explain("checking archive "+key, err)
	}
	return Info{Size: aws.ToInt64(head.ContentLength), Modified: aws.ToTime(head.LastModified), SHA256: sum}, malformed
}

// readMarker returns the checksum in the archive's commit marker. The error is
// [fs.ErrNotExist], [contract.ErrMalformedMeta], or one that says nothing about the marker.
func (s *Store) readMarker(ctx context.Context, key string) (sum string, err error) {
	doing := "reading the commit marker of archive " + key
	out, err := s.client.GetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.opts.Bucket, Key: s.object(key + contract.MetaSuffix),
	})
	if err != nil {
		return "", explain(doing, err)
	}
	defer out.Body.Close()
	sum, err = contract.ReadMeta(out.Body)
	switch {
	case errors.Is(err, contract.ErrMalformedMeta):
		return "", workspace.Fail(workspace.ReasonArchiveCorrupted, fmt.Errorf("%s: %w", doing, err))
	case err != nil:
		return "", explain(doing, err)
	}
	return sum, nil
}

// JobEnv returns the environment, NAME=value, with which a storage job finds the archive under key. It contains no
// secrets: those are in the [contract.Grant].
func (s *Store) JobEnv(key string) []string {
	env := []string{
		contract.EnvArchiveURL + "=" + contract.ArchiveURL(s.opts.Bucket, *s.object(key)),
		contract.EnvRegion + "=" + s.opts.Region,
		contract.EnvPathStyle + "=" + strconv.FormatBool(s.opts.PathStyle),
		contract.EnvGrant + "=true",
		contract.EnvVerify + "=" + s.settings.Load().Verify,
	}
	if s.opts.JobEndpoint != "" {
		env = append(env, contract.EnvEndpoint+"="+s.opts.JobEndpoint)
	}
	return env
}

// object returns the full name of the object under key, as a pointer for the SDK.
func (s *Store) object(key string) *string { return aws.String(s.opts.Prefix + key) }
