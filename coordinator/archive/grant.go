package archive

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

const (
	// longestGrant is the longest validity of a signature.
	longestGrant = 7 * 24 * time.Hour
	// shortestGrant is the shortest validity with which a job is started. A grant that is signed with temporary
	// credentials ends when they end.
	shortestGrant = 5 * time.Minute
	// uploadReuse is how long an unfinished upload is granted again; see [Store.upload]. It is far shorter than the age
	// at which the garbage collection aborts an upload.
	uploadReuse = time.Hour

	// unsigned stands for the checksum of the body, which is not known when the request is signed.
	unsigned = "UNSIGNED-PAYLOAD"
)

// Grant returns everything that a storage job of that kind may do with the archive under key, for as long as the job
// may run. A lifetime of 0 means the longest validity of a signature, seven days. The grant contains requests for the
// archive and its commit marker, each signed for its method and address, and nothing else. It is a secret. It does not
// contain the store's own credentials. It does not allow the job to list objects, to delete an archive or to reach
// another key.
//
// Grant may be called for a job that is already running, started by this process or by a former leader. It removes
// nothing, so it disturbs no job. It does not even remove an outdated commit marker: a late request of a former leader
// could remove the marker of an archive whose volume is gone. The job itself removes such a marker while it holds the
// volume.
func (s *Store) Grant(ctx context.Context, kind workspace.JobKind, key string, lifetime time.Duration) (
	contract.Grant, error) {
	sign, err := s.newSigner(ctx, lifetime)
	if err != nil {
		return contract.Grant{}, fmt.Errorf("granting the storage job its archive: %w", err)
	}
	archive, err := s.jobAddress(ctx, key)
	if err != nil {
		return contract.Grant{}, fmt.Errorf("granting the storage job its archive: %w", err)
	}
	marker := archive
	marker.Path += contract.MetaSuffix
	if marker.RawPath != "" {
		marker.RawPath += contract.MetaSuffix
	}
	for _, object := range []url.URL{archive, marker} {
		sign.add(http.MethodHead, object, nil, http.Header{"X-Amz-Checksum-Mode": {"ENABLED"}})
		sign.add(http.MethodGet, object, nil, nil)
	}
	g := contract.Grant{Expires: sign.expires, CA: s.opts.CA}
	keys := &s.settings.Load().Keys
	switch kind {
	case workspace.JobArchive:
		g.Recipients = keys.Recipients
	case workspace.JobRestore:
		g.Identities = keys.Identities
	}
	if kind == workspace.JobArchive {
		id, err := s.upload(ctx, key)
		if err != nil {
			return contract.Grant{}, err
		}
		of := url.Values{"uploadId": {id}}
		sign.add(http.MethodPut, archive, nil, s.newObject(contract.ArchiveType))
		sign.add(http.MethodPost, archive, of, nil)   // completes the upload
		sign.add(http.MethodDelete, archive, of, nil) // aborts it
		sign.add(http.MethodPut, marker, nil, s.newObject(""))
		sign.add(http.MethodDelete, marker, nil, nil)
		if g.Upload, err = contract.NewGrantedUpload(id, sign.parts(archive, id)); err != nil {
			return contract.Grant{}, fmt.Errorf("granting the storage job its archive: %w", err)
		}
	}
	g.Requests = sign.made
	if sign.err != nil {
		return contract.Grant{}, fmt.Errorf("granting the storage job its archive: %w", sign.err)
	}
	return g, nil
}

// newObject returns the headers with which an archive or its commit marker is written. A job must send them unchanged,
// because they are signed. The job chooses the content type of a commit marker.
func (s *Store) newObject(contentType string) http.Header {
	h := s.opts.ServerSideEncryption().Clone()
	if h == nil {
		h = http.Header{}
	}
	if contentType != "" {
		h.Set("Content-Type", contentType)
	}
	return h
}

// upload returns the id of a multipart upload for the archive under key. All jobs with the same key count as one job,
// however often it is started. A second grant uses the upload of the first, so neither disturbs the other. If no job
// completes an upload, its content never becomes part of an archive. The garbage collection aborts leftover uploads.
func (s *Store) upload(ctx context.Context, key string) (string, error) {
	var newest Upload
	err := s.listUploads(ctx, key, func(uploads []Upload) error {
		for _, u := range uploads {
			if u.Key == key && u.Initiated.After(newest.Initiated) {
				newest = u
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	if newest.ID != "" && s.now().Sub(newest.Initiated) < uploadReuse {
		return newest.ID, nil
	}
	made, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{
		Bucket: &s.opts.Bucket, Key: s.object(key),
	},
		func(o *s3.Options) {
			for name, values := range s.newObject(contract.ArchiveType) {
				o.APIOptions = append(o.APIOptions, smithyhttp.SetHeaderValue(name, values[0]))
			}
		})
	if err != nil {
		return "", explain("beginning the upload of "+key, err)
	}
	return aws.ToString(made.UploadId), nil
}

// jobAddress returns the unsigned address at which jobs reach the object under key.
func (s *Store) jobAddress(ctx context.Context, key string) (url.URL, error) {
	signed, err := s3.NewPresignClient(s.client).PresignGetObject(ctx, &s3.GetObjectInput{
		Bucket: &s.opts.Bucket, Key: s.object(key),
	},
		s3.WithPresignClientFromClientOptions(func(o *s3.Options) {
			if s.opts.JobEndpoint != "" {
				o.BaseEndpoint = &s.opts.JobEndpoint
			}
		}))
	if err != nil {
		return url.URL{}, explain("signing a request", err)
	}
	at, err := url.Parse(signed.URL)
	if err != nil {
		return url.URL{}, errors.New("the address of an archive cannot be read") // err would repeat the signature
	}
	at.RawQuery = ""
	return *at, nil
}

// signer signs requests with the store's credentials, until err is set.
type signer struct {
	ctx         context.Context
	v4          *v4.Signer
	credentials aws.Credentials
	region      string
	now         time.Time
	expires     time.Time
	made        []contract.GrantedRequest
	err         error
}

// newSigner returns a signer whose signatures are valid for lifetime, or only as long as the credentials.
func (s *Store) newSigner(ctx context.Context, lifetime time.Duration) (*signer, error) {
	credentials, err := s.client.Options().Credentials.Retrieve(ctx)
	if err != nil {
		return nil, explain("getting the store's credentials", err)
	}
	// Signatures have a resolution of a second.
	now := s.now().Truncate(time.Second)
	if lifetime <= 0 {
		lifetime = longestGrant
	}
	expires := now.Add(min(max(lifetime.Truncate(time.Second), shortestGrant), longestGrant))
	if credentials.CanExpire && credentials.Expires.Before(expires) {
		expires = credentials.Expires.Truncate(time.Second)
	}
	if left := expires.Sub(now); left < shortestGrant {
		return nil, workspace.Fail(workspace.ReasonUnreachable, fmt.Errorf(
			"the temporary credentials of the store end in %s, and a storage job is not started with less than %s: "+
				"check whether they are renewed",
			left, shortestGrant))
	}
	return &signer{
		ctx: ctx, credentials: credentials, region: s.opts.Region, now: now, expires: expires,
		v4: v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }), // as S3 requires
	}, nil
}

// sign returns the signed address of a request, and the headers that it must have.
func (s *signer) sign(method string, at url.URL, query url.Values, header http.Header) (string, http.Header) {
	all := url.Values{"X-Amz-Expires": {strconv.Itoa(int(s.expires.Sub(s.now).Seconds()))}}
	for name, values := range query {
		all[name] = values
	}
	at.RawQuery = all.Encode()
	request := (&http.Request{Method: method, URL: &at, Host: at.Host, Header: header.Clone()}).WithContext(s.ctx)
	if request.Header == nil {
		request.Header = http.Header{}
	}
	signed, headers, err := s.v4.PresignHTTP(s.ctx, s.credentials, request, unsigned, "s3", s.region, s.now)
	if err != nil {
		s.err = errors.Join(s.err, fmt.Errorf("signing a request: %w", err))
	}
	return signed, headers
}

// add adds a signed request to the grant.
func (s *signer) add(method string, at url.URL, query url.Values, header http.Header) {
	signed, headers := s.sign(method, at, query, header)
	r := contract.GrantedRequest{Method: method, URL: signed}
	for name, values := range headers {
		if name == "Host" {
			continue // it is in the address
		}
		if r.Header == nil {
			r.Header = make(map[string]string)
		}
		r.Header[name] = values[0]
	}
	s.made = append(s.made, r)
}

// parts returns the signed addresses of all parts of an upload.
func (s *signer) parts(archive url.URL, upload string) []string {
	signed := make([]string, contract.MaxParts)
	for i := range signed {
		signed[i], _ = s.sign(http.MethodPut, archive, url.Values{
			"uploadId": {upload}, "partNumber": {strconv.Itoa(i + 1)},
		}, nil)
	}
	return signed
}
