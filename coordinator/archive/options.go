// Package archive keeps the archives of workspaces in an object store with the S3 protocol (SPEC 1, contract 7; SPEC
// 7).
//
// An archive consists of two objects, {prefix}{key} and {prefix}{key}.meta. The second is the commit marker: it is
// written last and contains the checksum of the first. Without it, the archive does not exist. Keys in this package's
// methods are without the prefix.
//
// The package owns the coordinator's requests to the store, their retries, and the meaning of their errors: the store
// is away, something does not exist, or the store refuses. It must not transfer the content of a home, because storage
// jobs do that, and must not touch an object outside the prefix. It does not decide which archives are needed or who
// owns the bucket.
package archive

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/setting"
)

// Defaults of [Options].
const (
	DefaultPrefix = "archives/"
	DefaultRegion = "us-east-1"
)

// Options are the settings of a [Store].
type Options struct {
	// Endpoint is the address of the object store, such as https://s3.example.com:9000. Empty means Amazon's endpoint
	// for Region.
	Endpoint string
	// Region is the region used in signatures. Default [DefaultRegion].
	Region string
	// Bucket holds the archives. It is created if it does not exist.
	Bucket string
	// Prefix precedes every key. Nothing outside it is listed or deleted. It must end with a slash. Default
	// [DefaultPrefix].
	Prefix string
	// AccessKey and SecretKey sign the requests. If both are empty, the Amazon SDK
	// looks in its usual places: environment variables, files, instance roles.
	AccessKey, SecretKey string
	// PathStyle puts the bucket into the path of a URL instead of its host name. Most stores other than Amazon's need
	// it.
	PathStyle bool
	// JobEndpoint is the address at which storage jobs reach the store, if it differs from Endpoint. Default: Endpoint.
	JobEndpoint string
	// CA holds certificates in PEM that may have signed the store's certificate, besides those that the system trusts.
	// Storage jobs also need them.
	CA string
	// SSE is the encryption requested from the store: "s3" for the store's own keys, "kms" for the default key of its
	// key service, or "kms" and the id of another key there, separated by a space. Empty leaves it to the bucket.
	SSE string
	// Transport, if set, wraps the transport that sends the requests. Tests use it to make a store fail.
	Transport func(http.RoundTripper) http.RoundTripper `json:"-"`
	// Metrics counts the requests. Default: they are not counted.
	Metrics *metrics.S3 `json:"-"`
}

// bucketName matches the bucket names that S3 accepts.
var bucketName = regexp.MustCompile(`^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$`)

// Validate reports in one error everything that is wrong with the options. It does no I/O: wrong credentials show only
// in the first request.
func (o Options) Validate() error {
	var errs []error
	bad := func(name, format string, args ...any) { errs = append(errs, setting.Errorf(name, format, args...)) }
	if o.Bucket == "" {
		bad("s3 bucket", "missing; give the name of a bucket")
	} else if !bucketName.MatchString(o.Bucket) {
		bad("s3 bucket", "%q is not a bucket's name: use 3 to 63 lower-case letters, digits, dots and dashes", o.Bucket)
	}
	for _, e := range []struct{ name, value string }{{"s3 endpoint", o.Endpoint}, {"s3 job_endpoint", o.JobEndpoint}} {
		if err := checkEndpoint(e.value); err != nil {
			bad(e.name, "%w", err)
		}
	}
	if o.Prefix != "" && (!strings.HasSuffix(o.Prefix, "/") || strings.HasPrefix(o.Prefix, "/")) {
		bad("s3 prefix", "%q must end with a slash and not begin with one, like %q", o.Prefix, DefaultPrefix)
	}
	if err := o.checkCA(); err != nil {
		bad("s3 ca", "%w", err)
	}
	if _, err := parseSSE(o.SSE); err != nil {
		bad("s3 sse", "%w", err)
	}
	if (o.AccessKey == "") != (o.SecretKey == "") {
		bad("s3 access_key and s3 secret_key", "set both, or neither to use the credentials of the environment")
	}
	return errors.Join(errs...)
}

// checkEndpoint refuses anything that is not the address of a server. Its errors never repeat an address that might
// contain a password.
func checkEndpoint(s string) error {
	if s == "" {
		return nil
	}
	u, err := url.Parse(s)
	if err != nil {
		return fmt.Errorf("%q is not an address", s)
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("%q must be like https://s3.example.com:9000", s)
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return errors.New("must hold neither credentials nor a query")
	}
	return nil
}

// checkCA refuses certificates that cannot be read, or that no connection would use.
func (o Options) checkCA() error {
	if o.CA == "" {
		return nil
	}
	if _, err := authorities(o.CA); err != nil {
		return err
	}
	plain := func(endpoint string) bool { return strings.HasPrefix(endpoint, "http://") }
	if plain(o.Endpoint) && (o.JobEndpoint == "" || plain(o.JobEndpoint)) {
		return errors.New("the endpoint begins with http://, where no certificate is shown: write https://, " +
			"or remove ca")
	}
	return nil
}

// orDefault returns the options with a default for every unset option.
func (o Options) orDefault() Options {
	o.Region = cmp.Or(o.Region, DefaultRegion)
	o.Prefix = cmp.Or(o.Prefix, DefaultPrefix)
	o.JobEndpoint = cmp.Or(o.JobEndpoint, o.Endpoint)
	return o
}
