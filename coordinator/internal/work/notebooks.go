package work

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

const (
	// kernelsTimeout bounds the time of a query, and maxKernels the size of its answer.
	kernelsTimeout = 3 * time.Second
	maxKernels     = 1 << 20
)

// Notebooks asks Jupyter servers for busy kernels (SPEC 6). The query does not count as use. It is safe for concurrent
// use.
type Notebooks struct{ http *http.Client }

// NewNotebooks returns a client. It follows no redirects: a workspace must not choose what this process requests next.
// It keeps no connections: the next query is a minute away.
func NewNotebooks() *Notebooks {
	return &Notebooks{&http.Client{
		Timeout: kernelsTimeout,
		Transport: &http.Transport{
			DialContext:            (&net.Dialer{Timeout: kernelsTimeout}).DialContext,
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// Busy returns the name of a busy kernel of the server at endpoint, below basePath. The name is empty if no kernel is
// busy. It is also empty if the server is not a Jupyter server or requires a token; the workspace is then judged
// without its kernels. known is false if the server has accepted the query but has not answered in time, because it may
// be busy.
func (c *Notebooks) Busy(ctx context.Context, endpoint, basePath string) (kernel string, known bool) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+endpoint+basePath+
		"/api/kernels?no_track_activity=1", nil)
	if err != nil {
		return "", true
	}
	r.Header.Set("Accept", "application/json")
	answer, err := c.http.Do(r)
	if err != nil {
		return "", !isLate(err)
	}
	defer answer.Body.Close()
	var kernels []struct {
		Name  string `json:"name"`
		State string `json:"execution_state"`
	}
	if answer.StatusCode != http.StatusOK {
		return "", true
	}
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxKernels)).Decode(&kernels); err != nil {
		return "", !isLate(err)
	}
	for _, k := range kernels {
		if k.State == "busy" {
			if k.Name == "" {
				return "kernel", true
			}
			return k.Name, true
		}
	}
	return "", true
}

// isLate reports whether a server has accepted a query but not answered in time.
func isLate(err error) bool {
	var failed net.Error
	var op *net.OpError
	return errors.As(err, &failed) && failed.Timeout() && !(errors.As(err, &op) && op.Op == "dial")
}
