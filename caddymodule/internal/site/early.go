package site

import "net/http"

// IsEarly reports whether r may be a replay: it came in TLS early data (0-RTT), here or at a proxy that says so (RFC 8470).
// Such a request must have no effect. The client sends it again when it gets status 425.
func IsEarly(r *http.Request) bool {
	return r.TLS != nil && !r.TLS.HandshakeComplete || HeaderValue(r.Header, "Early-Data") == "1"
}
