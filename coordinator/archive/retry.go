package archive

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
)

// Limits of the retries of one call. If the store is silent, a call takes attempts times requestTimeout, plus the
// pauses: a little more than two minutes.
const (
	attempts = 4
	// firstPause doubles with every attempt, up to lastPause. The longer pauses are for a store that asks for fewer
	// requests.
	firstPause, lastPause         = 400 * time.Millisecond, 2 * time.Second
	throttledFirst, throttledLast = time.Second, 5 * time.Second
	// longestAsked bounds the pause that a store itself asks for.
	longestAsked = 10 * time.Second
)

// newRetryer returns the retry rule. From the second retry on, the SDK's own backoff has no jitter: all processes that
// a store has turned away would come back at the same time.
func newRetryer() aws.Retryer {
	return retry.NewStandard(func(o *retry.StandardOptions) {
		o.MaxAttempts = attempts
		o.Backoff = retry.BackoffDelayerFunc(func(try int, err error) (time.Duration, error) {
			return pause(try, err), nil
		})
		// There is no limit shared by all calls: a call with many retries must not use up the retries of the others.
		o.RateLimiter = ratelimit.None
		o.Retryables = append([]retry.IsErrorRetryable{retry.IsErrorRetryableFunc(retryable)}, o.Retryables...)
	})
}

// retryable decides about the errors for which the SDK's rules do not fit.
func retryable(err error) aws.Ternary {
	code, status := answer(err)
	switch {
	case wrongTLS(err), code == codeNotImplemented:
		return aws.FalseTernary
	case throttled[code], status == http.StatusTooManyRequests:
		return aws.TrueTernary
	}
	return aws.UnknownTernary
}

// pause returns how long to wait after a failed attempt; the first attempt is 1. Half of it is random, so that clients
// that failed together do not come back together. If the store asks for a longer pause, pause returns that, but at most
// longestAsked.
func pause(try int, err error) time.Duration {
	base, longest := firstPause, lastPause
	if code, status := answer(err); throttled[code] || status == http.StatusTooManyRequests ||
		status == http.StatusServiceUnavailable {
		base, longest = throttledFirst, throttledLast
	}
	d := min(base<<min(max(try-1, 0), 10), longest)
	d = d/2 + rand.N(d/2)
	return max(d, min(asked(err), longestAsked))
}

// asked returns the time for which the store asks to wait, or 0.
func asked(err error) time.Duration {
	var answer *awshttp.ResponseError
	if !errors.As(err, &answer) || answer.Response == nil {
		return 0
	}
	seconds, err := strconv.ParseUint(answer.Response.Header.Get("Retry-After"), 10, 16)
	if err != nil {
		return 0 // none, or a date: the store's clock may differ from ours
	}
	return time.Duration(seconds) * time.Second
}
