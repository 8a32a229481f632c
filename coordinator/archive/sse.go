package archive

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	smithyhttp "github.com/aws/smithy-go/transport/http"
)

// The headers that request server-side encryption.
const (
	headerSSE    = "X-Amz-Server-Side-Encryption"
	headerSSEKey = "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id"
)

// parseSSE reads [Options.SSE].
func parseSSE(text string) (http.Header, error) {
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, nil
	}
	asked := make(http.Header)
	switch method, keys := words[0], words[1:]; {
	case method == "s3" && len(keys) == 0:
		asked.Set(headerSSE, "AES256")
	case method == "s3":
		return nil, fmt.Errorf("s3 takes no key, because the store has its own: remove %q, or write kms instead of s3",
			strings.Join(keys, " "))
	case method == "kms" && len(keys) <= 1:
		asked.Set(headerSSE, "aws:kms")
		if len(keys) == 1 {
			asked.Set(headerSSEKey, keys[0])
		}
	case method == "kms":
		return nil, fmt.Errorf("kms takes one key, not %d: remove the others", len(keys))
	default:
		return nil, fmt.Errorf("%q is unknown: write s3, kms, or kms and the id of a key", method)
	}
	return asked, nil
}

// ServerSideEncryption returns the headers that request the encryption of [Options.SSE]. Only PutObject and
// CreateMultipartUpload send them. It is empty for options that [Options.Validate] refuses.
func (o Options) ServerSideEncryption() http.Header {
	asked, _ := parseSSE(o.SSE)
	return asked
}

// encrypt makes a client send these headers with every request that begins an object, so that none can be forgotten.
func encrypt(o *s3.Options, asked http.Header) {
	if len(asked) == 0 {
		return
	}
	set := func(ctx context.Context, in middleware.BuildInput, next middleware.BuildHandler) (middleware.BuildOutput,
		middleware.Metadata, error) {
		request, ok := in.Request.(*smithyhttp.Request)
		switch middleware.GetOperationName(ctx) {
		case "PutObject", "CreateMultipartUpload":
			for name, values := range asked {
				if ok {
					request.Header[name] = values
				}
			}
		}
		return next.HandleBuild(ctx, in)
	}
	o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
		return stack.Build.Add(middleware.BuildMiddlewareFunc("codehub.sse", set), middleware.After)
	})
}
