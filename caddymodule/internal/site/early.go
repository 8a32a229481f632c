package site

import (
	"net/http"
	"strings"
)

// IsEarly reports whether r may be a replay: it came in TLS early data (0-RTT), here or at a proxy that reports it
// (RFC 8470). Such a request must have no effect. The client sends it again when it gets status 425.
//
// Only the value 0 of Early-Data says that the data was not early. Repeated and invalid values count as 1, because a
// proxy may add its line to one that the client has sent.
func IsEarly(r *http.Request) bool {
	if r.TLS != nil && !r.TLS.HandshakeComplete {
		return true
	}
	for _, line := range r.Header["Early-Data"] {
		if strings.Trim(line, "0, \t") != "" {
			return true
		}
	}
	return false
}
