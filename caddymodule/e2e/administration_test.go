package e2e

import (
	"net/http"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestAdministratorInTheDashboard adds a user in the dashboard, sees the user's workspaces, and disables the user. A
// token from the dashboard works until it is revoked there.
func TestAdministratorInTheDashboard(t *testing.T) {
	t.Parallel()
	in := install(t)
	b := openTab(t)
	b.do("opening it", chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	b.click("the administrator's view", `nav [data-view=admin]`)
	b.click("the users", `[data-tab=users]`)
	b.click("another one", `#user-new`)
	b.fill("a name", `#user-name`, "bora")
	b.fill("a password that is too short", `#user-password`, "x")
	b.click("adding", `#user-dialog[open] [value=ok]`)
	b.do("it is refused", chromedp.WaitVisible(chromedp.CSS(`#user-message`)))
	b.fill("a password", `#user-password`, userPassword)
	b.click("adding", `#user-dialog[open] [value=ok]`)
	b.says(`#users-list`, "bora", "bora")
	bora := in.signIn(t, "bora", userPassword)
	hers := bora.create(t, "hers").ID
	bora.awaitPhase(t, hers, "RUNNING")
	b.click("the overview", `[data-tab=overview]`)
	b.says(`.figures`, "Running1", "실행 중1")
	b.says(`.figures`, "Users2", "사용자2")
	b.do("a disk and who leads", chromedp.WaitVisible(chromedp.CSS(`meter`)), chromedp.WaitVisible(chromedp.CSS(`.part .lines li`)))

	b.click("all workspaces", `[data-tab=workspaces]`)
	b.says(`#everyone`, "hers", "hers")
	b.click("her workspace", `#everyone tbody a`)
	b.says(`#view-workspace .history`, "bora", "bora")

	b.do("the users", chromedp.Navigate(in.url("/#/admin/users")))
	b.click("changing her", `[data-user=bora] button`)
	b.fill("a limit", `#user-running`, "1")
	b.click("saving", `#user-dialog[open] [value=ok]`)
	b.do("it is saved", chromedp.WaitNotPresent(chromedp.CSS(`#user-dialog[open]`)))
	bora.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": "another"}, http.StatusTooManyRequests, nil)
	b.click("changing her", `[data-user=bora] button`)
	b.click("shutting her out", `#user-disabled`)
	b.click("saving", `#user-dialog[open] [value=ok]`)
	b.says(`[data-user=bora]`, "disabled", "비활성")
	wait.Until(t, "she is signed out", func() bool {
		res, _ := bora.request(t, http.MethodGet, "/api/v1/me", nil)
		return res.StatusCode == http.StatusUnauthorized
	})

	b.click("the account", `nav [data-view=account]`)
	b.click("another token", `#token-new summary`)
	b.fill("a name", `#token-name`, "ci")
	b.click("making it", `#token-form button`)
	b.do("it is shown", chromedp.WaitVisible(chromedp.CSS(`#token-secret`)))
	token := read(b, "the token", chromedp.Value(chromedp.CSS(`#token-secret`)))
	status := func() int {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, in.url("/api/v1/workspaces"), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		res, err := newHTTPClient(nil).Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		return res.StatusCode
	}
	if got := status(); got != http.StatusOK {
		t.Errorf("with the token: %d", got)
	}
	b.click("revoking it", `#tokens-list button`)
	b.do("none is left", chromedp.WaitNotPresent(chromedp.CSS(`#tokens-list`)))
	if got := status(); got != http.StatusUnauthorized {
		t.Errorf("with the revoked token: %d", got)
	}
}
