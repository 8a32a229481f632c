package forward

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/site"
)

// conditions are the conditions of a request that asks for an answer only if the answer differs from the client's copy
// (RFC 9110 section 13).
type conditions struct {
	noneMatch     []string // If-None-Match
	modifiedSince string   // If-Modified-Since
}

// conditionsOf returns the conditions in a request's header.
func conditionsOf(h http.Header) conditions {
	return conditions{h["If-None-Match"], site.HeaderValue(h, "If-Modified-Since")}
}

// unchanged reports whether the client's copy equals the answer with the header h, whose status is 200.
func (c conditions) unchanged(h http.Header) bool {
	if len(c.noneMatch) > 0 {
		tag := strings.TrimPrefix(site.HeaderValue(h, "Etag"), "W/")
		for _, line := range c.noneMatch {
			if tag != "" && lists(line, tag) {
				return true
			}
		}
		return false
	}
	since, err := http.ParseTime(c.modifiedSince)
	if err != nil {
		return false
	}
	modified, err := http.ParseTime(site.HeaderValue(h, "Last-Modified"))
	return err == nil && !modified.After(since)
}

// lists reports whether a line of If-None-Match names an entity tag, weak or strong.
func lists(line, tag string) bool {
	for {
		line = strings.TrimLeft(line, " \t,")
		if strings.HasPrefix(line, "*") {
			return true
		}
		line = strings.TrimPrefix(line, "W/")
		if !strings.HasPrefix(line, `"`) {
			return false
		}
		end := strings.IndexByte(line[1:], '"')
		if end < 0 {
			return false
		}
		if line[:end+2] == tag {
			return true
		}
		line = line[end+2:]
	}
}

// notModified turns h into the header of an answer with status 304, by removing the fields that describe a body.
func notModified(h http.Header) {
	for _, name := range []string{"Content-Type", "Content-Length", "Content-Encoding"} {
		delete(h, name)
	}
}
