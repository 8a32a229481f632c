package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestDashboardOnAPhone does what users and administrators do after something went wrong, on a narrow screen and in
// both languages. They recover lost files, their own and another user's, understand why they were lost, and undo a
// deletion. They see what a workspace waits for and what the installation needs.
func TestDashboardOnAPhone(t *testing.T) {
	t.Parallel()
	in := install(t)
	me, ann := in.admin(t), in.addUser(t, "ann")
	mine, theirs := me.create(t, "mine").ID, ann.create(t, "theirs").ID
	for _, state := range []string{"ARCHIVED", "RUNNING", "STANDBY"} { // an archive, and a volume with newer files
		me.setDesiredState(t, mine, state)
		ann.setDesiredState(t, theirs, state)
		me.awaitPhase(t, mine, state)
		ann.awaitPhase(t, theirs, state)
	}
	for _, id := range []string{mine, theirs} {
		if err := in.engine.RemoveVolume(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		me.setDesiredState(t, id, "RUNNING")
		if w := me.awaitPhase(t, id, "ERROR"); w.ErrorReason != "DataLost" {
			t.Fatalf("without its volume it is %+v", w)
		}
	}

	b := openTab(t)
	b.do("opening it", chromedp.EmulateViewport(390, 844), chromedp.Navigate(in.url("/")))
	b.signIn("admin", in.password)
	const card = `article[data-name="mine"]`
	b.click("its own page", card+" h3 a")
	b.says(`#view-workspace .explain dl`, "neither the volume nor a current archive was found", "볼륨")
	b.says(`#view-workspace .history`, "Created", "생성됨")
	b.do("loading the page again", chromedp.Reload())
	b.says(`#view-workspace h1`, "mine", "mine")
	b.click("back to the list", `nav [data-view=home]`)

	b.recover(card+` [data-action=recover]`, "Take the archive of ", "보관본 사용")
	b.do("seeing it run", chromedp.WaitVisible(chromedp.CSS(card+`[data-phase=RUNNING]`)))
	b.click("the administrator's view", `nav [data-view=admin]`)
	b.says(`#failed-list`, "of ann", "소유자: ann")
	b.recover(`#failed-list button`, "Start with an empty home", "빈 홈으로 시작")
	b.do("no other user has an error", chromedp.WaitNotPresent(chromedp.CSS(`#failed`)))
	wait.Until(t, "theirs runs", func() bool { return ann.workspace(t, theirs).Phase == "RUNNING" })
	b.click("back to the list", `nav [data-view=home]`)

	if err := in.docker.ContainerPause(t.Context(), "ws-"+mine); err != nil {
		t.Fatal(err)
	}
	b.says(card+` .waiting`, "paused", "일시 중지")
	if err := in.docker.ContainerUnpause(t.Context(), "ws-"+mine); err != nil {
		t.Fatal(err)
	}
	b.do("it waits no more", chromedp.WaitNotPresent(chromedp.CSS(card+` .waiting`)))

	b.choose(card, "delete")
	b.click("it runs: that is asked", `#confirm-ok`)
	b.do("the card goes", chromedp.WaitNotPresent(chromedp.CSS(card)))
	b.says(`#deleted-list`, "Undo", "삭제 취소")
	b.click("undo", `#deleted-list button:not(.danger):enabled`)
	b.do("the card is back", chromedp.WaitVisible(chromedp.CSS(card)), chromedp.WaitNotPresent(chromedp.CSS(`#deleted`)))
	if w := me.awaitPhase(t, mine, "ARCHIVED"); w.ArchiveKey == "" {
		t.Errorf("it came back as %+v", w)
	}

	in.putObject(t, "archives/codehub.json", []byte(`{"installation": "another", "database": "another"}`))
	ann.setDesiredState(t, theirs, "ARCHIVED")
	wait.For(t, "the bucket of another installation is noticed", func() error {
		if _, text := me.request(t, http.MethodGet, "/health/coordinator", nil); !strings.Contains(text, "accept bucket") {
			return errors.New(text)
		}
		return nil
	})
	b.do("loading the page again", chromedp.Reload())
	b.says(`#problems`, "Needs an administrator", "관리자의 조치가 필요합니다")
	b.says(`#problems-list`, "caddy codehub accept bucket", "caddy codehub accept bucket")

	b.click("the account", `nav [data-view=account]`)
	b.fill("a wrong one", `#password-present`, "wrong")
	b.fill("a new one", `#password-new`, "another horse battery")
	b.click("change it", `#password-form button`)
	b.says(`#password-message`, "not your current password", "현재 비밀번호와 다릅니다")
	b.fill("the present one", `#password-present`, in.password)
	b.click("change it", `#password-form button`)
	b.says(`#password-done`, "was changed", "변경했습니다")
	b.do("the events go on", chromedp.WaitVisible(chromedp.CSS(`#connection[data-state=live]`)))
	if res, _ := me.request(t, http.MethodGet, "/api/v1/me", nil); res.StatusCode != http.StatusUnauthorized {
		t.Errorf("another sign-in of the user lives on: %s", res.Status)
	}
}

// says checks that an element has these texts in English and in Korean, and that the page fits the screen. It switches
// the language twice.
func (b *tab) says(selector string, texts ...string) {
	b.t.Helper()
	for i, lang := range []string{"en", "ko"} {
		wait.For(b.t, fmt.Sprintf("%s says %q", selector, texts[i]), func() error {
			shown := read(b, selector, chromedp.Evaluate[string](fmt.Sprintf(`document.documentElement.lang + ": " + document.querySelector(%q)?.textContent`, selector)))
			if !strings.HasPrefix(shown, lang+": ") || !strings.Contains(shown, texts[i]) {
				return errors.New(shown)
			}
			return nil
		})
		b.fits(selector)
		b.switchLanguage()
	}
}

// switchLanguage chooses the next language by script, because an open dialog would block a mouse.
func (b *tab) switchLanguage() {
	b.t.Helper()
	read(b, "the language switch", chromedp.Evaluate[bool](`((e) => { e.selectedIndex = (e.selectedIndex + 1) % e.length; return e.dispatchEvent(new Event("change")); })(document.getElementById("language"))`))
}

// fits checks that nothing makes the page wider than the screen.
func (b *tab) fits(at string) {
	b.t.Helper()
	wide := read(b, "the width", chromedp.Evaluate[string](`document.documentElement.scrollWidth > innerWidth
		? [...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.tagName + "#" + e.id + "." + e.className).join(" ") : ""`))
	if wide != "" {
		b.t.Errorf("at %s the page is wider than the screen: %s", at, wide)
	}
}

// recover recovers files: it opens the dialog with the button, and chooses the option that has these words. Before
// that, it opens the dialog once in Korean and cancels it.
func (b *tab) recover(button, english, korean string) {
	b.t.Helper()
	for _, way := range []struct{ words, leave string }{{korean, "cancel"}, {english, "ok"}} {
		b.switchLanguage() // the choices are written when the dialog opens
		b.click("recover", button)
		b.do("the dialog", chromedp.WaitVisible(chromedp.CSS(`#recovery[open] input[name=choice]`)))
		b.chooseFiles(way.words)
		b.fits("the dialog")
		b.click(way.leave, `#recovery[open] button[value=`+way.leave+`]`)
		b.do("the dialog closes", chromedp.WaitNotVisible(chromedp.CSS(`#recovery`)))
	}
}

// choose chooses an action from the menu of a card.
func (b *tab) choose(card, action string) {
	b.t.Helper()
	b.click("the menu", card+` [data-menu]`)
	b.click(action, card+` [data-action=`+action+`]`)
}

// chooseFiles selects the choice that contains these words.
func (b *tab) chooseFiles(words string) {
	b.t.Helper()
	at := read(b, "the choices", chromedp.Evaluate[int](fmt.Sprintf(
		`[...document.querySelectorAll("#recovery label")].findIndex((l) => l.textContent.includes(%q))`, words)))
	if at < 0 {
		b.t.Fatalf("no choice says %q: %s", words, read(b, "the choices", chromedp.Evaluate[string](`document.getElementById("recovery").innerText`)))
	}
	b.click("choosing", fmt.Sprintf(`#recovery input[name=choice][value="%d"]`, at))
}
