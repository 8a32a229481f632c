package gateway

import (
	"regexp"
	"testing"
	"time"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/wait"
)

// sleepSoon makes the workspace go to sleep in less than a minute, and waits until the page shows the notice.
func (b *browser) sleepSoon() {
	b.t.Helper()
	b.Change(one, func(r *store.Route) { r.SleepAt = time.Now().Add(50 * time.Second) })
	b.awaitSaid("Going to sleep in ")
}

// move moves the mouse to a point, as a hand does.
func (b *browser) move(x, y float64) {
	b.t.Helper()
	b.do("moving the mouse", chromedp.MouseEvent(input.DispatchMouseEventTypeMouseMoved, x, y))
}

// TestANoticeIsClosedWithoutUse checks that closing the notice does not count as use: neither the movement of the mouse
// to the notice and back nor the click.
func TestANoticeIsClosedWithoutUse(t *testing.T) {
	b := openEditor(t)
	b.move(300, 300)
	wait.Until(t, "a moved mouse counts", func() bool { return b.Used(one) })
	b.sleepSoon()
	b.Used(one)
	b.move(400, 400)
	at := js[[]float64](b, `(() => {
		const r = document.querySelector("codehub-notice").shadowRoot.querySelector("h2").getBoundingClientRect();
		return [r.x + r.width / 2, r.y + r.height / 2];
	})()`)
	b.move(at[0], at[1])
	b.press("Close")
	b.awaitSaid("")
	b.move(420, 420)
	wait.Until(t, "the click is over", func() bool {
		b.flows()
		return !js[bool](b, `navigator.userActivation.isActive`)
	})
	if b.Used(one) {
		t.Error("closing the notice counts as use")
	}
	x := 500.0
	wait.Until(t, "a mouse that goes on moving counts", func() bool {
		x++
		b.move(x, 400)
		return b.Used(one)
	})
}

// TestTheNoticeFollowsTheTime checks that the notice follows the time of the sleep, which a longer TTL changes.
func TestTheNoticeFollowsTheTime(t *testing.T) {
	b := openEditor(t)
	b.sleepSoon()
	b.Change(one, func(r *store.Route) { r.SleepAt = time.Now().Add(59 * time.Second) })
	later := regexp.MustCompile(`in 5[1-9] s`)
	wait.Until(t, "the notice says the later time", func() bool { return later.MatchString(js[string](b, said)) })
}

// TestAMouseInThePageAnswersTheNotice checks that a mouse that moves in the page answers the notice and counts as use,
// although it might only have been on its way to the notice.
func TestAMouseInThePageAnswersTheNotice(t *testing.T) {
	b := openEditor(t)
	b.sleepSoon()
	b.move(300, 300)
	b.move(310, 310)
	b.awaitHeard("You are here")
	wait.Until(t, "it counts", func() bool { return b.Used(one) })
}

// TestNothingCoversWhatIsShown, not even a modal dialog of the page, which makes everything else inert.
func TestNothingCoversWhatIsShown(t *testing.T) {
	const modal = `(() => {
		const d = document.createElement("dialog");
		d.append("Save as?");
		document.body.append(d);
		d.showModal();
		return true;
	})()`
	t.Run("notice", func(t *testing.T) {
		b := openEditor(t)
		js[bool](b, modal)
		b.sleepSoon()
		b.picture("notice-modal")
		b.press("4 h") // elsewhere a click would count, too
		wait.Until(t, "the button does what it says", func() bool { return b.KeptAwake(one) == 4*time.Hour })
	})
	t.Run("cover", func(t *testing.T) {
		b := openEditor(t)
		b.asleep()
		b.awaitSaid("Asleep since ")
		js[bool](b, modal) // the page goes on
		wait.Until(t, "the cover is above it", func() bool {
			return js[bool](b, `document.elementFromPoint(innerWidth / 2, innerHeight / 2)?.localName === "codehub-notice"`)
		})
		b.press("Wake")
		b.awaitSaid("Waking up")
		wait.Until(t, "the workspace is woken", b.Woken)
	})
	t.Run("gone", func(t *testing.T) {
		b := openEditor(t)
		js[bool](b, modal)
		b.sleepSoon()
		js[bool](b, `(document.querySelector("dialog").remove(), true)`)
		wait.Until(t, "the notice is still there", func() bool {
			return js[bool](b, `!!document.querySelector("codehub-notice")?.checkVisibility()`)
		})
		b.press("Close")
		b.awaitSaid("")
	})
}
