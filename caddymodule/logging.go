package codehub

import (
	"net/http"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyhttp"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/workspace"
)

// requestID returns the id that Caddy gives a request. From the first call on, the access log contains it, too.
func requestID(r *http.Request) string {
	replacer, ok := r.Context().Value(caddy.ReplacerCtxKey).(*caddy.Replacer)
	if !ok {
		return ""
	}
	id, _ := replacer.GetString("http.request.uuid")
	return id
}

// logAnswer adds the workspace, the user and the outcome to the line of a request in the access log, if the server
// has one.
func logAnswer(r *http.Request, id workspace.ID, client, answer string, held time.Duration) {
	server, _ := r.Context().Value(caddyhttp.ServerCtxKey).(*caddyhttp.Server)
	if server == nil || server.Logs == nil {
		return
	}
	extra, ok := r.Context().Value(caddyhttp.ExtraLogFieldsCtxKey).(*caddyhttp.ExtraLogFields)
	if !ok {
		return
	}
	extra.Set(zap.String(logkey.Client, client))
	extra.Set(zap.String(logkey.Answer, answer))
	if id != "" {
		extra.Set(zap.String(logkey.Workspace, string(id)))
	}
	if held > 0 {
		extra.Set(zap.Duration(logkey.Held, held))
	}
}
