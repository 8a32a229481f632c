package api

import "net/http"

// LocalTransport is a transport of [Local] for any handler.
func LocalTransport(h http.HandlerFunc) http.RoundTripper { return localTransport{h} }
