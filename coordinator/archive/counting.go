package archive

import (
	"io"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsmiddleware "github.com/aws/aws-sdk-go-v2/aws/middleware"

	"github.com/codehub/gateway/coordinator/metrics"
)

// countingClient counts every attempt of its requests, and the bytes of their bodies.
type countingClient struct {
	aws.HTTPClient
	metrics *metrics.S3
}

// counted returns a client that counts the requests of client, if m is not nil.
func counted(client aws.HTTPClient, m *metrics.S3) aws.HTTPClient {
	if m == nil {
		return client
	}
	return countingClient{client, m}
}

// Do implements [aws.HTTPClient].
func (c countingClient) Do(r *http.Request) (*http.Response, error) {
	began, status := time.Now(), 0
	res, err := c.HTTPClient.Do(r)
	if err == nil {
		status = res.StatusCode
		c.metrics.Sent(int(r.ContentLength))
		res.Body = countedBody{res.Body, c.metrics}
	}
	if err == nil || r.Context().Err() == nil { // otherwise the caller gave it up
		c.metrics.Requested(awsmiddleware.GetOperationName(r.Context()), status, time.Since(began))
	}
	return res, err
}

// countedBody counts the bytes that are read from an answer.
type countedBody struct {
	io.ReadCloser
	metrics *metrics.S3
}

// Read implements [io.Reader].
func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.metrics.Received(n)
	return n, err
}
