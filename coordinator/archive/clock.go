package archive

import (
	"context"
	"sync/atomic"
	"time"

	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
)

// noticedSkew is the difference from which the store's clock is followed. A smaller difference may merely be the time
// that the answer spent on the network.
const noticedSkew = time.Minute

// storeClock derives the store's time from the dates of its answers. The SDK signs its own requests with the corrected
// time; for other requests, see [Store.now].
type storeClock struct{ ahead atomic.Int64 }

// watch makes a client set the clock.
func (c *storeClock) watch(o *s3.Options) {
	see := func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (
		middleware.InitializeOutput, middleware.Metadata, error) {
		out, metadata, err := next.HandleInitialize(ctx, in)
		if skew, ok := awsmiddleware.GetAttemptSkew(metadata); ok {
			if skew.Abs() < noticedSkew {
				skew = 0
			}
			c.ahead.Store(int64(skew))
		}
		return out, metadata, err
	}
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("codehub.clock", see), middleware.Before)
	})
}

// now returns the current time by the store's clock, according to its latest answer. Requests that others will send
// must be signed with this time: a store refuses a signature that is 15 minutes old, or in its future.
func (s *Store) now() time.Time { return time.Now().Add(time.Duration(s.clock.ahead.Load())) }
