package gateway

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
)

// maxForm bounds the forms of the gateway's own pages, in bytes.
const maxForm = 64 << 10

// readForm reads a form that one of the gateway's own pages has sent from the workspace's
// origin. It returns the address in the form's field "return", to which the answer leads back.
// Otherwise it answers, and reports false.
func (g *Gateway) readForm(req *request) (back string, ok bool, err error) {
	r := req.r
	if r.Method != http.MethodPost {
		req.w.Header().Set("Allow", http.MethodPost)
		problem.Method.With("problem.use_post", nil).Write(req.w, req.r)
		return "", false, nil
	}
	if !sentByPage(r) {
		return "", false, g.answer(req, decision.Decision{Answer: decision.SendCrossOrigin}, nil, nil)
	}
	r.Body = http.MaxBytesReader(req.w, r.Body, maxForm)
	return g.wanted(req, r.PostFormValue("return")), true, nil
}

// isForm reports whether a form of the gateway's own pages is sent to that path.
func isForm(path string) bool { return path == site.OwnPath+swapPath || path == site.OwnPath+wakePath }

// sentByPage reports whether a browser says that a page of the same origin has sent the
// form. Every browser says so; a program has the API.
func sentByPage(r *http.Request) bool {
	if site := r.Header.Get("Sec-Fetch-Site"); site != "" {
		return site == "same-origin" && r.Header.Get("Sec-Fetch-Mode") == "navigate"
	}
	return r.Header.Get("Origin") != "" // compared with the host already
}
