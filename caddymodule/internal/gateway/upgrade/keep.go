package upgrade

import (
	"io"
	"net/http"
	"sync"
	"time"
)

// Still reports whether the application at the other end of the connections is frozen at the moment. It also returns a
// channel that is closed when that may have changed.
type Still func() (still bool, changed <-chan struct{})

// keepEvery is how often a client gets a sign that its connection is alive. It is far below the 20
// s without a byte after which code-server's page closes it.
const keepEvery = 5 * time.Second

// keepAlive is a WebSocket frame with a message of VS Code's protocol: its type (keep-alive), without a number, an
// acknowledgement or a length. The page reads it as a sign of life and does nothing.
var keepAlive = []byte{0x82, 13, 9, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}

// speaksVSCode reports whether r opens a WebSocket whose frames carry VS Code's protocol.
func speaksVSCode(r *http.Request) bool {
	query := r.URL.Query()
	return query.Get("reconnectionToken") != "" && query.Get("skipWebSocketFrames") == "false"
}

// outlet is the direction of a connection to the client.
type outlet struct {
	mu     sync.Mutex
	to     io.Writer
	flush  func() error // nil where nothing is buffered
	closed bool
	counter
}

func (o *outlet) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.count(p)
	return o.to.Write(p)
}

// Flush sends the buffered data.
func (o *outlet) Flush() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.flush()
}

// close ends what keep writes.
func (o *outlet) close() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.closed = true
}

// keep runs until ended is closed. While the application is frozen, it keeps telling the client that the connection is
// alive. Otherwise the page would keep reconnecting and cover itself with a message about that. It would then become
// usable only some time after the application resumes.
func (o *outlet) keep(still Still, ended <-chan struct{}) {
	for {
		is, changed := still()
		var due <-chan time.Time
		if is {
			due = time.After(keepEvery)
		}
		select {
		case <-ended:
			return
		case <-changed:
		case <-due:
			if o.sendKeepAlive() != nil {
				return
			}
		}
	}
}

// sendKeepAlive writes only between messages, never within one.
func (o *outlet) sendKeepAlive() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return io.ErrClosedPipe
	}
	if !o.frames.between() {
		return nil
	}
	if _, err := o.to.Write(keepAlive); err != nil || o.flush == nil {
		return err
	}
	return o.flush()
}
