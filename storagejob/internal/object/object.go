// Package object reads and writes one archive in an S3 store: the archive itself and, beside it, the ".meta" that
// commits it (SPEC 7).
//
// It owns the requests to the store, their retries, and the kinds of their errors. It must not interpret an archive's
// content, and must touch no other object.
package object

import (
	"context"
	"crypto/x509"
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
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/codehub/gateway/storagejob/contract"
)

// Limits of the requests.
const (
	// attempts is how often each request is tried in total. The coordinator retries the whole operation (SPEC 1,
	// contract 10).
	attempts = 3
	// silence is how long a download waits for the next byte before it reconnects.
	silence = 60 * time.Second
)

// The store errors that a job reports with their own exit codes.
var (
	// ErrMissing reports that the archive or its .meta does not exist.
	ErrMissing = errors.New("archive not found")
	// ErrUnreachable reports that the store did not answer, or refused.
	ErrUnreachable = errors.New("object store")
)

// Options say where an archive is, and how it may be accessed.
type Options struct {
	// URL is a [contract.ArchiveURL].
	URL string
	// PathStyle puts the bucket's name into the path of an address, and not into its host name.
	PathStyle bool
	// Scratch is the folder for parts of an archive that are too large for memory.
	Scratch string
	// Grant contains everything that is permitted. Without it, the credentials come from the environment.
	Grant *contract.Grant
}

// parts yields the sizes of parts. It is [contract.Parts], except in tests.
type parts interface {
	Size(number int) int64
	Max() int64
}

// Archive is one archive in a store. It may not exist yet.
type Archive struct {
	client  *s3.Client
	bucket  string
	key     string
	scratch string
	silence time.Duration // the constant; tests use a smaller one
	parts   parts
	grant   *contract.Grant
	ended   bool     // the granted upload no longer exists
	killed  []string // the uploads of killed runs that Prepare has removed
}

// Open returns the archive. The SDK reads the region, the endpoint and, without a grant, the credentials from the
// environment. Open does no I/O. The caller must call Close.
func Open(ctx context.Context, o Options) (*Archive, error) {
	bucket, key, err := contract.ParseArchiveURL(o.URL)
	if err != nil {
		return nil, err
	}
	// The defaults of LoadDefaultConfig include checksums of every upload, which s3.New alone omits.
	load := []func(*config.LoadOptions) error{config.WithRetryMaxAttempts(attempts),
		config.WithHTTPClient(transport(nil))}
	var signed *http.Client
	if o.Grant != nil {
		if signed, err = grantedClient(o.Grant, key); err != nil {
			return nil, err
		}
		load = append(load, config.WithCredentialsProvider(aws.AnonymousCredentials{}),
			// Checksums would be unsigned headers. See [Archive.md5].
			config.WithRequestChecksumCalculation(aws.RequestChecksumCalculationWhenRequired))
	}
	cfg, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, fmt.Errorf("reading the store's settings: %w", err)
	}
	return &Archive{
		client: s3.NewFromConfig(cfg, func(s *s3.Options) {
			s.UsePathStyle = o.PathStyle
			// The archive has its own checksum, so the missing one is expected.
			s.DisableLogOutputChecksumValidationSkipped = true
			if signed != nil {
				s.HTTPClient = signed
			}
		}),
		bucket: bucket, key: key, scratch: o.Scratch, silence: silence, parts: contract.PartsFor(0), grant: o.Grant,
	}, nil
}

// transport returns a client whose every wait is bounded: a job that hangs would keep its volume. It trusts the given
// authorities or, without any, those of the system.
func transport(authorities *x509.CertPool) *awshttp.BuildableClient {
	return awshttp.NewBuildableClient().
		WithDialerOptions(func(d *net.Dialer) { d.Timeout = 10 * time.Second }).
		WithTransportOptions(func(t *http.Transport) {
			// Completing a large upload may take the store minutes.
			t.ResponseHeaderTimeout = 5 * time.Minute
			t.TLSHandshakeTimeout = 10 * time.Second
			if authorities != nil {
				t.TLSClientConfig.RootCAs = authorities
			}
		})
}

// grantedClient returns a client that sends only granted requests. It follows no redirects: a signature is for one
// host.
func grantedClient(g *contract.Grant, key string) (*http.Client, error) {
	var authorities *x509.CertPool
	if g.CA != "" {
		var err error
		if authorities, err = x509.SystemCertPool(); err != nil {
			authorities = x509.NewCertPool() // this system has none
		}
		if !authorities.AppendCertsFromPEM([]byte(g.CA)) {
			return nil, errors.New("the grant's certificate authority is not a certificate in PEM format")
		}
	}
	signed, err := newGranted(transport(authorities).GetTransport(), g, key)
	if err != nil {
		return nil, err
	}
	return &http.Client{Transport: signed,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// Info describes a committed archive.
type Info struct {
	// Size is the archive's size in bytes.
	Size int64
	// Content is the size of the tar stream in it plus the holes that the stream describes, in bytes.
	Content int64
	// SHA256 is the archive's checksum in lower-case hexadecimal.
	SHA256 string
}

// Stat checks that the archive is committed: the archive and its .meta exist and belong together, as far as that is
// known without reading the archive. Otherwise the error is ErrMissing or [contract.ErrMalformedMeta].
func (a *Archive) Stat(ctx context.Context) (Info, error) {
	head, err := a.client.HeadObject(ctx, &s3.HeadObjectInput{Bucket: &a.bucket, Key: &a.key})
	if err != nil {
		return Info{}, a.explain("checking the archive", err)
	}
	info, err := a.Meta(ctx)
	if err != nil {
		return Info{}, err
	}
	size := aws.ToInt64(head.ContentLength)
	if size == 0 || info.Size > 0 && info.Size != size {
		return Info{}, fmt.Errorf("%w (the archive has %d bytes, and its .meta says %d)", contract.ErrMalformedMeta,
			size, info.Size)
	}
	info.Size = size
	return info, nil
}

// Stored is what the store reports about the archive, whether it is committed or not.
type Stored struct {
	// Size is in bytes.
	Size int64
	// CRC32 and CRC64NVME are checksums of the whole archive in base64; empty if the store keeps none.
	CRC32, CRC64NVME string
}

// Stored asks the store about the archive. The error is ErrMissing if the archive does not exist.
func (a *Archive) Stored(ctx context.Context) (Stored, error) {
	head, err := a.client.HeadObject(ctx,
		&s3.HeadObjectInput{Bucket: &a.bucket, Key: &a.key, ChecksumMode: types.ChecksumModeEnabled})
	if err != nil {
		return Stored{}, a.explain("checking the upload", err)
	}
	s := Stored{Size: aws.ToInt64(head.ContentLength)}
	// For a multipart upload, the store may report a checksum of the parts' checksums instead.
	if head.ChecksumType == types.ChecksumTypeFullObject {
		s.CRC32, s.CRC64NVME = aws.ToString(head.ChecksumCRC32), aws.ToString(head.ChecksumCRC64NVME)
	}
	return s, nil
}

// Meta reads the .meta without looking at the archive. A size that the .meta does not record is 0. The error is
// ErrMissing, [contract.ErrMalformedMeta] or ErrUnreachable.
func (a *Archive) Meta(ctx context.Context) (Info, error) {
	key := a.key + contract.MetaSuffix
	out, err := a.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &a.bucket, Key: &key})
	if err != nil {
		return Info{}, a.explain("reading the archive's .meta", err)
	}
	defer out.Body.Close()
	sum, err := contract.ReadMeta(out.Body)
	if errors.Is(err, contract.ErrMalformedMeta) {
		return Info{}, err
	}
	if err != nil {
		return Info{}, a.explain("reading the archive's .meta", err)
	}
	info := Info{SHA256: sum}
	info.Size, info.Content = contract.MetaSizes(out.Metadata, aws.ToString(out.ContentType))
	return info, nil
}

// Commit writes the .meta, after which the archive counts. It must be called only after [Upload.Close] has returned
// nil. Repeating it is harmless.
func (a *Archive) Commit(ctx context.Context, info Info) error {
	key := a.key + contract.MetaSuffix
	_, err := a.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &a.bucket, Key: &key,
		Body:        strings.NewReader(contract.FormatMeta(info.SHA256)),
		ContentType: aws.String(contract.MetaContentType(info.Size, info.Content)),
		Metadata: map[string]string{
			contract.MetaArchiveSize: strconv.FormatInt(info.Size, 10),
			contract.MetaContentSize: strconv.FormatInt(info.Content, 10),
		},
	})
	return a.explain("writing the archive's .meta", err)
}

// explain marks a store error as ErrMissing or ErrUnreachable, and says so if the grant has expired.
func (a *Archive) explain(doing string, err error) error {
	if err == nil || errors.Is(err, ErrUnreachable) { // already explained
		return err
	}
	var api smithy.APIError
	// NoSuchBucket does not count as a missing archive: otherwise a wrong setting would look like lost data.
	if errors.As(err, &api) && (api.ErrorCode() == "NoSuchKey" || api.ErrorCode() == "NotFound") {
		return fmt.Errorf("%s: %w", doing, ErrMissing)
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, errNotGranted) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	var answer *awshttp.ResponseError
	if a.grant != nil && errors.As(err, &answer) && answer.HTTPStatusCode() == http.StatusForbidden &&
		(!time.Now().Before(a.grant.Expires) || strings.Contains(strings.ToLower(err.Error()), "expired")) {
		return fmt.Errorf("%s: %w: the grant of the job expired at %s; the job is retried with a new grant: %w",
			doing, ErrUnreachable, a.grant.Expires.UTC().Format(time.RFC3339), err)
	}
	return fmt.Errorf("%s: %w: %w", doing, ErrUnreachable, err)
}
