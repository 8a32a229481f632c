package archive

import (
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"
)

// refusedError is a refusal by the store, or on the way to it, with advice for a person.
type refusedError struct {
	err    error
	remedy string
	// one means that a different request may still be accepted.
	one bool
}

func (e *refusedError) Error() string {
	return "the object store refuses: " + e.err.Error() + "; " + e.remedy
}

func (e *refusedError) Unwrap() error { return e.err }

// adviseOne does the same as advise, for an error after which a different request may still be accepted.
func adviseOne(err error, remedy string) error {
	return &refusedError{err: err, remedy: remedy, one: true}
}

// advise adds advice for a person.
func advise(err error, remedy string) error { return &refusedError{err: err, remedy: remedy} }

// largestSkew is the difference between the clocks above which a refusal is blamed on the clock. Stores accept a
// difference of 15 minutes, some less.
const largestSkew = 5 * time.Minute

// wrongRegion holds the codes with which stores report that the signature, or the bucket, belongs to a different
// region.
var wrongRegion = map[string]bool{
	"AuthorizationHeaderMalformed": true, "AuthorizationQueryParametersError": true, "PermanentRedirect": true,
	"IllegalLocationConstraintException": true, "TemporaryRedirect": true, "InvalidRegion": true,
}

// permissions maps each operation to the action that a policy must allow.
var permissions = map[string]string{
	"PutObject": "s3:PutObject", "CreateMultipartUpload": "s3:PutObject", "UploadPart": "s3:PutObject",
	"CompleteMultipartUpload": "s3:PutObject", "GetObject": "s3:GetObject", "HeadObject": "s3:GetObject",
	"DeleteObjects": "s3:DeleteObject", "AbortMultipartUpload": "s3:AbortMultipartUpload",
	"HeadBucket": "s3:ListBucket", "ListObjectsV2": "s3:ListBucket", "CreateBucket": "s3:CreateBucket",
	"ListMultipartUploads": "s3:ListBucketMultipartUploads",
}

// adviseStatus adds advice to an answer with which the store refuses a request.
func adviseStatus(err error, code string, status int) error {
	denied := status == http.StatusUnauthorized || status == http.StatusForbidden
	skew, known := skewOf(err)
	switch {
	case denied && known && skew.Abs() >= largestSkew:
		way := "behind it"
		if skew < 0 {
			way = "ahead of it"
		}
		return advise(fmt.Errorf("the clock of this machine differs from the store's by %d minutes and is %s: %w",
			int(skew.Abs().Round(time.Minute).Minutes()), way, err), "synchronise the clocks of both machines (NTP)")
	case code == "RequestTimeTooSkewed":
		return advise(err, "synchronise the clocks of this machine and of the store (NTP)")
	case code == "InvalidAccessKeyId", code == "SignatureDoesNotMatch":
		return advise(err, "check s3 access_key and secret_key")
	case wrongRegion[code], status == http.StatusMovedPermanently, status == http.StatusTemporaryRedirect,
		status == http.StatusPermanentRedirect:
		return advise(err, adviseRegion(err))
	case code == "SecondLevelDomainForbidden", code == "VirtualHostDomainRequired":
		return advise(err, "set s3 path_style false: this store wants the bucket's name in front of the host's")
	case denied:
		what := "to list the bucket and to read, write and delete its objects"
		var operation *smithy.OperationError
		if errors.As(err, &operation) && permissions[operation.OperationName] != "" {
			what = permissions[operation.OperationName]
		}
		return adviseOne(err, "check s3 access_key and secret_key, and that the key's policy allows "+what)
	}
	return &refusedError{
		err: err, remedy: "check s3 endpoint (http or https?), bucket and path_style",
		one: status == http.StatusMethodNotAllowed,
	}
}

// adviseRegion names the right region if the store's answer names it.
func adviseRegion(err error) string {
	var response *awshttp.ResponseError
	if errors.As(err, &response) {
		if region := response.Response.Header.Get("X-Amz-Bucket-Region"); region != "" {
			return fmt.Sprintf("set s3 region %s, and s3 endpoint to that of this region", region)
		}
	}
	return "check s3 region and endpoint: the bucket is in another region"
}

// skewOf returns how far the store's clock is ahead of this machine's, according to the date of its answer.
func skewOf(err error) (skew time.Duration, known bool) {
	var response *awshttp.ResponseError
	if !errors.As(err, &response) || response.Response == nil {
		return 0, false
	}
	theirs, bad := http.ParseTime(response.Response.Header.Get("Date"))
	return time.Until(theirs), bad == nil
}

// adviseTLS adds advice to a failed TLS connection.
func adviseTLS(err error) error {
	var unknown x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &unknown):
		return advise(err, "write the certificate of the authority that signed the store's certificate into a file, "+
			"and name that file with s3 ca")
	case errors.As(err, &name):
		return advise(err, "set s3 endpoint to a name that the store's certificate is for; with s3 path_style false "+
			"the bucket's name comes in front of it")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return advise(err, "renew the store's certificate, or set the clock of this machine")
	}
	return advise(err, "check the store's certificate and whether s3 endpoint begins with the right one of "+
		"http and https")
}

// adviseAway says what to look at if the store does not answer.
func adviseAway(err error) string {
	var name *net.DNSError
	if errors.As(err, &name) {
		return "check s3 endpoint; if the name begins with the bucket's, set s3 path_style true"
	}
	if code, status := answer(err); code != "" || status != 0 {
		return "it answers, but not now: look at the store's own log and load"
	}
	return "check s3 endpoint, whether the store runs, and what stands between it and this process"
}
