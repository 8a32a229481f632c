package site

import "net/http"

// IsEarly reports whether r may be a copy that somebody has recorded and sent again: it came in TLS early data (0-RTT), here or
// at a proxy that says so (RFC 8470). Nothing may be done for it. The client sends it again when it gets status 425.
func IsEarly(r *http.Request) bool {
	return r.TLS != nil && !r.TLS.HandshakeComplete || HeaderValue(r.Header, "Early-Data") == "1"
}
