package object

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/codehub/gateway/storagejob/contract"
)

// errNotGranted says that the grant lacks something that the job needs: they come from different releases.
var errNotGranted = errors.New("the job's grant does not allow this")

// granted sends each request in its granted form: with the signed address, the granted headers, and no other header
// that would have to be signed.
type granted struct {
	next     http.RoundTripper
	requests map[string]contract.GrantedRequest
	upload   *contract.GrantedUpload
	key      string // the end of the archive's path
}

// newGranted returns a transport that sends only granted requests.
func newGranted(next http.RoundTripper, g *contract.Grant, key string) (*granted, error) {
	t := &granted{next: next, requests: make(map[string]contract.GrantedRequest, len(g.Requests)),
		upload: g.Upload, key: key}
	for _, r := range g.Requests {
		signed, err := url.Parse(r.URL)
		if err != nil {
			return nil, errors.New("the grant holds an address that cannot be read") // err would repeat it
		}
		t.requests[operation(r.Method, signed)] = r
	}
	return t, nil
}

// operation names what a request does: its method, its object, and its parameters, except the parameters of signatures
// and of the store's logs.
func operation(method string, at *url.URL) string {
	query := at.Query()
	for name := range query {
		if strings.HasPrefix(name, "X-Amz-") || name == "x-id" {
			query.Del(name)
		}
	}
	return method + " " + at.Path + "?" + query.Encode()
}

// RoundTrip implements [http.RoundTripper]. Its errors contain no signature.
func (t *granted) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := t.find(r)
	if err != nil {
		return nil, err
	}
	signed, err := url.Parse(to.URL)
	if err != nil {
		return nil, errors.New("the grant holds an address that cannot be read") // err would repeat it
	}
	out := r.Clone(r.Context())
	out.URL, out.Host = signed, signed.Host
	for name := range out.Header {
		if name == "Authorization" || strings.HasPrefix(name, "X-Amz-") {
			out.Header.Del(name)
		}
	}
	for name, value := range to.Header {
		out.Header.Set(name, value)
	}
	return t.next.RoundTrip(out)
}

// find returns the granted form of a request.
func (t *granted) find(r *http.Request) (contract.GrantedRequest, error) {
	if to, ok := t.requests[operation(r.Method, r.URL)]; ok {
		return to, nil
	}
	query := r.URL.Query()
	if number, err := strconv.Atoi(query.Get("partNumber")); err == nil && r.Method == http.MethodPut &&
		t.upload != nil &&
		strings.HasSuffix(r.URL.Path, "/"+t.key) && query.Get("uploadId") == t.upload.ID {
		if at, ok := t.upload.PartURL(number); ok {
			return contract.GrantedRequest{Method: r.Method, URL: at}, nil
		}
	}
	return contract.GrantedRequest{}, fmt.Errorf("%w: %s %s; does the storage job's image belong to the gateway's release?",
		errNotGranted, r.Method, r.URL.Path)
}
