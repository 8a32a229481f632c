package gatewaytest

import (
	"net/http"
	"strings"
)

// NewRequest builds a request from header lines like "Name: value". A line for Host
// sets the host that the request names.
func NewRequest(method, target string, lines ...string) *http.Request {
	r, err := http.NewRequest(method, target, nil)
	if err != nil {
		panic(err)
	}
	for _, l := range lines {
		name, value, _ := strings.Cut(l, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header[http.CanonicalHeaderKey(name)] = append(r.Header[http.CanonicalHeaderKey(name)], value)
	}
	return r
}
