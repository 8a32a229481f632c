package forward

import (
	"net/http"
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/gateway/decision"
	"github.com/codehub/gateway/caddymodule/internal/gateway/tabs"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/audit"
	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/auth"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/metrics"
	"github.com/codehub/gateway/coordinator/workspace"
)

// The thresholds that distinguish a transfer from the background traffic of an idle page. Messages
// of an unused editor have at most about 1 kB. Those of an upload or download have 64 kB and more
// before compression.
const (
	// transferMessage is the size from which a WebSocket message is part of a transfer.
	transferMessage = 16 << 10
	// transferBytes is how much of a body must pass within transferWindow, in milliseconds, to make
	// it a transfer. Polls and slow streams of events stay below.
	transferBytes  = 256 << 10
	transferWindow = 60_000
	// mediaBytes replaces transferBytes for sound and video. It is lower, because speech takes only 60 kB a minute, and
	// because no idle page polls for sound or video.
	mediaBytes = 32 << 10
)

// meter counts a request as use of its workspace, at its beginning and while bytes flow (SPEC 6).
// The rules may change while the request is in progress: a page begins to report, the setting changes, or the workspace
// is put to sleep. The time without bytes never counts, and neither does the end of the request.
type meter struct {
	slot   *activity.Slot
	buffer *activity.Buffer
	entry  *route.Entry
	tabs   *tabs.Tabs
	// byPage says that a page has sent the request by itself. page is the address of that page without its query, 0 if
	// unknown; exact is its address with the query.
	byPage      bool
	page, exact tabs.Address
	// signal is the kind of use that the request shows, apart from its messages and transfers.
	signal metrics.Signal
	// grant admits the request; address is the client's, and id the request's. They are copies, because other
	// goroutines read them.
	grant       auth.Grant
	address, id string
}

// Actor implements [audit.Asker]: the user and the token that the audit names if the request wakes the workspace.
func (m *meter) Actor() audit.Actor {
	return m.grant.Actor(audit.Actor{Address: m.address, Request: m.id})
}

// counting says which parts of a request count as use.
type counting uint8

const (
	countNothing counting = iota
	countTransfers
	countAll
)

// counts returns what counts as use at the moment:
//
//	workspace is to stop                                  nothing: it is too late for that
//	navigation, program                                   everything
//	by a page, in a workspace whose pages report          transfers
//	by a page that does not, in a workspace whose do      everything
//	by a page, in any other workspace                     everything
func (m *meter) counts() counting {
	r := &m.entry.State().Route
	switch {
	case r.Desired != workspace.DesiredRunning:
		return countNothing
	case m.byPage && r.PageActivity == workspace.PagePresence && m.buffer.Presence() && !m.isSilent():
		return countTransfers
	}
	return countAll
}

// isSilent reports whether the gateway knows that the page does not report what people do in it.
func (m *meter) isSilent() bool {
	id := m.entry.State().Route.ID
	return m.tabs.Plain(id, m.exact) || m.page != 0 && m.tabs.Silent(id, m.page)
}

// begin counts the beginning of the request or of its answer.
func (m *meter) begin() {
	if m.counts() == countAll {
		m.slot.TouchBy(m.signal, m)
	}
}

// Message counts a message of a WebSocket.
func (m *meter) Message(size uint64) {
	if c := m.counts(); c == countAll || c == countTransfers && size >= transferMessage {
		m.slot.TouchBy(metrics.ByMessage, m)
	}
}

// flow is one direction of a request whose bytes are counted.
type flow struct {
	endless bool  // a stream of events, never a transfer
	media   bool  // sound or video
	since   int64 // beginning of the current window
	bytes   int   // passed in it
}

// pass counts n passed bytes.
func (m *meter) pass(f *flow, n int) {
	if n == 0 {
		return
	}
	switch m.counts() {
	case countAll:
		m.slot.TouchBy(m.signal, m)
	case countTransfers:
		if now := m.buffer.Now(); now-f.since > transferWindow {
			f.since, f.bytes = now, 0
		}
		enough := transferBytes
		if f.media {
			enough = mediaBytes
		}
		if f.bytes += n; f.bytes >= enough && !f.endless {
			m.slot.TouchBy(metrics.ByTransfer, m)
		}
	}
}

// isByPage reports whether a page sends r by itself. It does not if a person opens the address, or if a program sends
// the request. The frames of a workspace's own page belong to that page.
func isByPage(r *http.Request, kind decision.ClientKind) bool {
	if kind != decision.Navigation {
		return kind != decision.Program
	}
	switch site.HeaderValue(r.Header, "Sec-Fetch-Dest") {
	case "iframe", "frame", "embed", "object":
		return site.HeaderValue(r.Header, "Sec-Fetch-Site") == "same-origin"
	}
	return false
}

// isEndless reports whether the header announces a stream without an end.
func isEndless(h http.Header) bool {
	kind := site.HeaderValue(h, "Content-Type")
	return strings.HasPrefix(kind, "text/event-stream") || strings.HasPrefix(kind, "multipart/x-mixed-replace")
}

// isPlayed reports whether a page plays the answer to r.
func isPlayed(r *http.Request) bool {
	dest := site.HeaderValue(r.Header, "Sec-Fetch-Dest")
	return dest == "audio" || dest == "video"
}

// isMedia reports whether the header announces sound or video.
func isMedia(h http.Header) bool {
	kind := site.HeaderValue(h, "Content-Type")
	return strings.HasPrefix(kind, "audio/") || strings.HasPrefix(kind, "video/")
}

// newMeter returns the meter of the request r.
func (f *Forwarder) newMeter(r *http.Request, about *Request) meter {
	m := meter{
		slot: f.Activity.Slot(about.Address.ID), buffer: f.Activity, entry: about.Entry, tabs: f.Tabs,
		byPage: isByPage(r, about.Kind), signal: metrics.ByPage, grant: about.Grant,
	}
	if site.IsExtendedConnect(r) || site.HeaderValue(r.Header, "Upgrade") != "" { // few, and open for long
		client := f.Client(r)
		m.address, m.id = client.Address, client.Request
	} else {
		m.address = f.ClientAddress(r) // the id would be made for this
	}
	switch {
	case m.byPage:
	case about.Kind == decision.Program:
		m.signal = metrics.ByProgram
	default:
		m.signal = metrics.ByNavigation
	}
	switch {
	case !m.byPage || about.Kind == decision.SelfNavigation:
	case site.IsWebSocket(r):
		m.page = f.Tabs.Opener(about.Address.ID)
		m.exact = m.page
	default:
		m.page, m.exact = tabs.Sender(r), tabs.SenderExact(r)
		if part := tabs.Part(r); part != 0 {
			f.Tabs.LoadPart(about.Address.ID, part)
		}
	}
	return m
}
