package archive

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"syscall"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/smithy-go"

	"github.com/codehub/gateway/coordinator/workspace"
)

// ErrNoBucket means that the store answers but has no bucket of the configured name.
var ErrNoBucket = errors.New("the object store has no such bucket: check the setting s3 bucket, " +
	"and whether the store's data folder is mounted")

// errNotFound is the store's answer that an object does not exist.
var errNotFound = fmt.Errorf("the object store has no such object: %w", fs.ErrNotExist)

// codeNotImplemented is the code of a store's answer to a request that it does not support. A retry does not help,
// regardless of the status.
const codeNotImplemented = "NotImplemented"

// throttled are the codes with which stores ask for fewer requests or say that they are not ready, regardless of the
// answer's status.
var throttled = map[string]bool{
	"SlowDown": true, "Throttling": true, "ThrottlingException": true, "RequestLimitExceeded": true,
	"TooManyRequests": true, "ServiceUnavailable": true, "InternalError": true, "RequestTimeout": true,
	"OperationAborted": true,
}

// explain classifies a failed request as one of three kinds that callers distinguish. Either the store is away
// ([workspace.ReasonUnreachable]), and the caller may retry later. Or the store says that something does not exist
// ([fs.ErrNotExist], [ErrNoBucket]). Or the store refuses, and the error says what to check. doing describes the failed
// action, as a gerund.
//
// If the request failed because the caller's context ended, the error is of none of these kinds.
func explain(doing string, err error) error {
	kind, cause := classify(err)
	if kind == away {
		return workspace.Fail(workspace.ReasonUnreachable, fmt.Errorf("%s: the object store is away: %w", doing, cause))
	}
	return fmt.Errorf("%s: %w", doing, cause)
}

// kind is what an error says about the store.
type kind int

const (
	cancelled kind = iota // nothing: the caller gave up
	away                  // it does not answer, or not now
	notFound              // it says that the object does not exist
	refusal               // it will repeat this until an operator changes something
)

// classify returns the kind of an error, and the error with advice. The order of the rules matters. The codes that only
// a store writes come first. Then comes the status, which a proxy in front of the store may also send. On everything
// else, stores and proxies disagree. A status of 404 without a store's code says nothing about the object: it may be
// some other page at the endpoint.
func classify(err error) (kind, error) {
	if errors.Is(err, context.Canceled) {
		return cancelled, err
	}
	code, status := answer(err)
	if code == codeNotImplemented {
		return refusal, adviseOne(err, "use a store that knows this request")
	}
	if throttled[code] || status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		return away, err
	}
	switch code {
	case "NoSuchKey", "NoSuchUpload", "NotFound":
		return notFound, errNotFound
	case "NoSuchBucket":
		return notFound, ErrNoBucket
	}
	if status == 0 || status < 300 {
		return classifyTransport(err)
	}
	return refusal, adviseStatus(err, code, status)
}

// answer returns the store's code and status, or "" and 0 without an answer.
func answer(err error) (code string, status int) {
	var api smithy.APIError
	var response *awshttp.ResponseError
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	return code, status
}

// classifyTransport does the work of classify for a request without a complete answer. A network error is an outage,
// which is transient. A complete answer that cannot be understood is no outage.
func classifyTransport(err error) (kind, error) {
	if wrongTLS(err) {
		return refusal, adviseTLS(err)
	}
	var network net.Error
	var malformed *smithy.DeserializationError
	switch {
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &network), cutOff(err):
		return away, err
	case errors.As(err, &malformed):
		return refusal, advise(err, "the answer is not one of an object store: check s3 endpoint, and what stands "+
			"between it and this process")
	}
	return refusal, advise(err, "check the settings of s3")
}

// wrongTLS reports whether the two ends can communicate but cannot agree on TLS. A retry would not help.
func wrongTLS(err error) bool {
	var certificate *tls.CertificateVerificationError
	return errors.As(err, &certificate) || errors.Is(err, http.ErrSchemeMismatch)
}

// cutOff reports whether the connection ended before the answer did.
func cutOff(err error) bool {
	for _, e := range []error{io.EOF, io.ErrUnexpectedEOF, net.ErrClosed, syscall.ECONNRESET, syscall.ECONNREFUSED,
		syscall.EPIPE} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}
