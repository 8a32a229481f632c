package pages

import (
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/web"
)

// TestEveryMessageHasItsTexts checks the texts whose keys the code puts together.
func TestEveryMessageHasItsTexts(t *testing.T) {
	t.Parallel()
	for name, m := range map[string]*web.Message{
		"not_found": NotFound(), "misdirected": Misdirected("https://example.com"), "no_answer": NoAnswer("/"), "unavailable": Unavailable("/"),
		"expired_ticket": ExpiredTicket("/"), "busy": Busy("/"), "no_user": NoUser(), "signed_out": SignedOut("/"),
		"no_listener": NoListener("/", 3000), "unpublished": Unpublished(),
	} {
		for part, text := range map[string]string{"heading": m.Heading["en"], "text": m.Text["en"]} {
			if text == "" || text == "page."+name+"."+part {
				t.Errorf("the message %s has no %s: %q", name, part, text)
			}
		}
	}
}
