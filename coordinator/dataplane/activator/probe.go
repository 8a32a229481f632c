package activator

import (
	"context"
	"net/http"
	"time"
)

// probeTimeout bounds one probe. An application may take several seconds for its first answer.
const probeTimeout = 10 * time.Second

// ProbeHTTP returns a probe that sends GET to the root of the application. Every answer is good, even 401 or 404. The
// exceptions are 502, 503 and 504, which come from a server that is still starting. The probe does not follow
// redirects: a redirect is an answer, and it may lead elsewhere.
func ProbeHTTP() Probe {
	client := &http.Client{
		Timeout: probeTimeout,
		Transport: &http.Transport{
			DisableKeepAlives:      true,
			MaxResponseHeaderBytes: 64 << 10,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return func(ctx context.Context, endpoint, basePath string) bool {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+endpoint+basePath+"/", nil)
		if err != nil {
			return false
		}
		req.Header.Set("User-Agent", "codehub-gateway")
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		_ = resp.Body.Close() // the body is not read
		switch resp.StatusCode {
		case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return false
		}
		return true
	}
}
