package web

import (
	"net/http"

	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/dataplane/explain"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

// ShowOutdated answers a request to a process that is too old for its database: a person gets a
// page that tries again by itself, since another process may answer then, a program a problem.
// home is the list of all workspaces. An error means that nothing was sent.
func ShowOutdated(w http.ResponseWriter, r *http.Request, older *postgres.OlderError, home string) error {
	if !site.IsNavigation(r) {
		problem.Of(older).Write(w)
		return nil
	}
	w.Header().Set("Retry-After", problem.RetryUnavailable)
	w.Header().Set("Refresh", problem.RetryUnavailable)
	return Messages.ShowMessage(w, r, http.StatusServiceUnavailable, &Message{
		Heading: explain.Text{En: "This server is too old", Ko: "서버의 릴리스가 너무 오래되었습니다"},
		Text: explain.Text{
			En: "The database was upgraded, and this server has not been yet. Your files are safe. This page tries again by itself.",
			Ko: "데이터베이스는 업그레이드되었지만 이 서버는 아직 업그레이드되지 않았습니다. 파일은 안전합니다. 이 페이지는 자동으로 다시 시도합니다."},
		Detail: older.Error(),
		Remedy: explain.Text{En: "If this page stays, tell an administrator.", Ko: "이 화면이 계속 보이면 관리자에게 알려 주세요."},
	}, home)
}
