package pages

import (
	"github.com/codehub/gateway/caddymodule/internal/web"
	"github.com/codehub/gateway/coordinator/words"
)

// message returns the message whose texts in package words begin with key: a heading, and a few sentences.
func message(key string, values words.Values, links ...web.Link) *web.Message {
	return &web.Message{Heading: words.Of(key+"heading", values), Text: words.Of(key+"text", values), Links: links}
}

// tryAgain is a link to the requested address.
func tryAgain(to string) web.Link {
	return web.Link{URL: to, Text: words.Of("page.try_again", nil)}
}

// NotFound is the page for an address without a workspace of the user. It is
// the same for a missing workspace and for another user's, so that ids cannot be
// probed.
func NotFound() *web.Message { return message("page.not_found.", nil) }

// Misdirected is the page for a host at which people do not sign in.
func Misdirected(main string) *web.Message {
	return message("page.misdirected.", words.Values{"Main": main})
}

// NoAnswer is the page for an application that gave no answer.
func NoAnswer(to string) *web.Message { return message("page.no_answer.", nil, tryAgain(to)) }

// Unavailable is the page for a process that cannot decide yet: the route
// table is empty, or the session cannot be checked.
func Unavailable(to string) *web.Message { return message("page.unavailable.", nil, tryAgain(to)) }

// ExpiredTicket is the page for a ticket that cannot be redeemed. Back is a
// local path.
func ExpiredTicket(back string) *web.Message {
	return message("page.expired_ticket.", nil, web.Link{URL: back, Text: words.Of("page.expired_ticket.open", nil)})
}

// Busy is the page for a running workspace that cannot be put to sleep immediately.
func Busy(back string) *web.Message { return message("page.busy.", nil, tryAgain(back)) }

// NoUser is the page for a request that another authentication has let pass without a user.
func NoUser() *web.Message { return message("page.no_user.", nil) }

// SignedOut is the page for a form that was sent after the session had ended.
// Opening the address leads to the sign-in and back.
func SignedOut(back string) *web.Message {
	return message("page.signed_out.", nil, web.Link{URL: back, Text: words.Of("page.signed_out.sign_in", nil)})
}

// NoListener is the page for a port on which nothing listens.
func NoListener(to string, port int) *web.Message {
	return message("page.no_listener.", words.Values{"Port": port}, tryAgain(to))
}

// Unpublished is the page for a port that this process cannot reach.
func Unpublished() *web.Message { return message("page.unpublished.", nil) }
