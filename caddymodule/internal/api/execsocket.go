package api

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
	"github.com/codehub/gateway/caddymodule/internal/problem"
	"github.com/codehub/gateway/caddymodule/internal/site"
	"github.com/codehub/gateway/coordinator/backend"
	recovery "github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/words"
	"github.com/codehub/gateway/coordinator/workspace"
)

// execStart bounds how long a client may take to send the command after it has connected.
const execStart = 30 * time.Second

// execSocketWorkspace is GET /workspaces/{id}/exec as a WebSocket: [call.execWorkspace] with input, and with a
// terminal. The messages are those of [v1.ExecProtocol]. The command is in the first message and not in the address,
// because addresses are logged. Once the WebSocket is open, a refusal is sent as a message, too.
func (c *call) execSocketWorkspace() error {
	if site.IsEarly(c.r) { // unlike other GETs it has an effect
		return problem.TooEarly.With("problem.too_early", nil)
	}
	if !site.IsWebSocket(c.r) {
		c.w.Header().Set("Upgrade", "websocket")
		return problem.Upgrade.With("problem.use_websocket", words.Values{"Protocol": v1.ExecProtocol})
	}
	w, give, err := c.commandPlace()
	if err != nil {
		return err
	}
	give = sync.OnceFunc(give)
	defer give()
	ctx, done, err := c.bind(c.Exit, nil)
	if err != nil {
		return err
	}
	defer done()
	conn, err := websocket.Accept(c.w, c.r, &websocket.AcceptOptions{
		Subprotocols: []string{v1.ExecProtocol}, InsecureSkipVerify: true, // guard has checked the origin
	})
	c.fromMemory = true // the calls below report an outage of the database themselves
	if err != nil {     // the client has been told about it
		return nil
	}
	defer conn.CloseNow()
	s := newExecSocket(conn)
	defer s.listen(ctx, c.Heartbeat)()
	code, err := c.execIn(s, w)
	give() // a client may take its time to close
	said := v1.ExecSaid{ExitCode: &code}
	if err != nil {
		said = v1.ExecSaid{Problem: c.refused(context.WithoutCancel(ctx), err).In(site.Language(c.r))}
	}
	if s.say(context.WithoutCancel(ctx), said) == nil {
		_ = conn.Close(websocket.StatusNormalClosure, "")
	}
	return nil
}

// execIn runs the command that the client of a WebSocket sends, and returns the exit code.
func (c *call) execIn(s *execSocket, w workspace.Workspace) (int, error) {
	var start v1.ExecStart
	select {
	case text := <-s.first:
		if err := bodyProblem(unmarshal(text, &start)); err != nil {
			return 0, err
		}
	case <-time.After(execStart):
		return 0, problem.BadRequest.With("problem.body_empty", nil)
	case <-s.ctx.Done():
		return 0, execProblem(s.ctx, s.ctx.Err())
	}
	given, err := commandOf(start.Command)
	if err != nil {
		return 0, err
	}
	command := backend.Command{Words: given}
	if start.Stdin {
		command.Stdin = s.input
	}
	if t := start.Terminal; t != nil {
		if strings.ContainsFunc(t.Type, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return 0, problem.InvalidField("terminal.type", "problem.terminal_type", nil)
		}
		command.Terminal = &backend.Terminal{Type: t.Type, Size: backend.Size{Columns: t.Columns, Rows: t.Rows}, Resized: s.resized}
	}
	if err := c.beginCommand(w, given[0]); err != nil {
		return 0, err
	}
	return c.run(s.ctx, command, s.prints(v1.ExecStdout), s.prints(v1.ExecStderr))
}

// execSocket is the WebSocket of a command.
type execSocket struct {
	conn    *websocket.Conn
	ctx     context.Context // ends with the client, the session and the process
	first   chan []byte     // what to run
	input   *execInput
	resized chan backend.Size // the newest size that was not read yet
}

func newExecSocket(conn *websocket.Conn) *execSocket {
	s := &execSocket{conn: conn, first: make(chan []byte, 1), resized: make(chan backend.Size, 1)}
	s.input = newExecInput(func(n int) error { return s.say(s.ctx, v1.ExecSaid{Taken: n}) })
	conn.SetReadLimit(maxBody)
	return s
}

// listen receives the client's messages until the caller calls stop, and notices if the client disconnects before that.
func (s *execSocket) listen(ctx context.Context, heartbeat time.Duration) (stop func()) {
	ctx, gone := context.WithCancel(ctx)
	s.ctx = ctx
	context.AfterFunc(ctx, func() { s.input.end(io.ErrClosedPipe) })
	heard := make(chan struct{})
	// Read closes the connection when its context ends. The connection is still needed to send the end of the command,
	// so the context of Read must not end with ctx.
	reading, enough := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(heard)
		defer gone()
		recovery.Run("listening to the client of a command", func() {
			if err := s.hear(reading); err != nil {
				_ = s.conn.Close(websocket.StatusPolicyViolation, err.Error())
			}
		})
	}()
	go func() {
		defer gone()
		recovery.Run("looking for the client of a command", func() { s.look(ctx, heartbeat) })
	}()
	return func() {
		gone()
		enough()
		<-heard
	}
}

// look pings the client regularly, and returns when the client no longer answers or ctx ends.
func (s *execSocket) look(ctx context.Context, heartbeat time.Duration) {
	ticker := time.NewTicker(heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamWriteTimeout)
			err := s.conn.Ping(asking)
			cancel()
			if err != nil {
				return
			}
		case <-ctx.Done():
			return
		}
	}
}

// errMessage means that a client has sent an invalid message.
var errMessage = errors.New("a message that " + v1.ExecProtocol + " does not have")

// hear receives the client's messages until it disconnects. It returns an error if a message is invalid.
func (s *execSocket) hear(ctx context.Context) error {
	for begun := false; ; begun = true {
		kind, message, err := s.conn.Read(ctx)
		if err != nil {
			return nil // the client has disconnected
		}
		switch {
		case !begun:
			if kind != websocket.MessageText {
				return errMessage
			}
			s.first <- message
		case kind == websocket.MessageText:
			var to v1.ExecResize
			if err := unmarshal(message, &to); err != nil || to.Terminal == nil {
				return errMessage
			}
			s.resize(backend.Size{Columns: to.Terminal.Columns, Rows: to.Terminal.Rows})
		case len(message) > 0 && message[0] == v1.ExecStdin:
			if err := s.input.put(message[1:]); err != nil {
				return err
			}
		case len(message) == 2 && message[0] == v1.ExecClose && message[1] == v1.ExecStdin:
			s.input.end(io.EOF)
		default:
			return errMessage
		}
	}
}

// resize replaces a size that has not been read yet.
func (s *execSocket) resize(to backend.Size) {
	select {
	case <-s.resized:
	default:
	}
	s.resized <- to // only this goroutine sends
}

// say sends a text message.
func (s *execSocket) say(ctx context.Context, v v1.ExecSaid) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return s.send(ctx, websocket.MessageText, text)
}

// send sends a message unless ctx has ended. A client that reads nothing is dropped. If ctx ends while a message is
// being sent, the message is still sent completely. Write closes the connection when its context ends, and the
// connection is still needed to send the end of the command.
func (s *execSocket) send(ctx context.Context, kind websocket.MessageType, message []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), streamWriteTimeout)
	defer cancel()
	return s.conn.Write(ctx, kind, message)
}

// prints returns a writer that sends bytes to the client on a channel. Only one goroutine at a time may use the writer.
func (s *execSocket) prints(channel byte) io.Writer {
	return &execChannel{s, make([]byte, 1, 1+v1.ExecPiece), channel}
}

// execChannel sends the output of a command.
type execChannel struct {
	s       *execSocket
	message []byte
	channel byte
}

// Write implements [io.Writer].
func (e *execChannel) Write(p []byte) (n int, err error) {
	for n < len(p) {
		piece := p[n:min(len(p), n+v1.ExecPiece)]
		e.message = append(append(e.message[:0], e.channel), piece...)
		if err := e.s.send(e.s.ctx, websocket.MessageBinary, e.message); err != nil {
			return n, err
		}
		n += len(piece)
	}
	return n, nil
}
