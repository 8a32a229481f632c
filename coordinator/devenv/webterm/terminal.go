package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/coder/websocket"
	"github.com/creack/pty"
)

// terminal runs a shell per WebSocket. Binary messages are the terminal's bytes,
// both ways; a text message from the browser is a new size, {"cols":80,"rows":24}.
type terminal struct {
	shell string
}

func (t terminal) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := accept(w, r)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	if err := t.serve(r.Context(), conn); err != nil {
		log.Printf("terminal: %v", err)
		_ = conn.Close(websocket.StatusInternalError, "the shell could not be started")
	}
}

// serve runs a shell until it or the connection ends. An error is one of starting
// the shell: every other end is a normal one.
func (t terminal) serve(ctx context.Context, conn *websocket.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, t.shell, "-l")
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	if home := os.Getenv("HOME"); home != "" {
		cmd.Dir = home
	}
	// Closing a terminal hangs up; only a shell that does not care is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGHUP) }
	cmd.WaitDelay = time.Second
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		return fmt.Errorf("starting %s: %w", t.shell, err)
	}
	// Ends with the connection, which the caller closes next.
	go func() {
		defer cancel()
		receive(ctx, conn, tty)
	}()
	send(ctx, conn, tty)
	// Before cancel, which would break the connection off under the reader.
	_ = conn.Close(websocket.StatusNormalClosure, "the shell ended")
	cancel()
	tty.Close()
	_ = cmd.Wait() // its exit code is the user's business
	return nil
}

// send copies what the shell prints to the browser until either ends.
func send(ctx context.Context, conn *websocket.Conn, tty *os.File) {
	stop := context.AfterFunc(ctx, func() { tty.Close() }) // ends a blocked Read
	defer stop()
	buf := make([]byte, 32<<10)
	for {
		n, err := tty.Read(buf)
		if n > 0 {
			if conn.Write(ctx, websocket.MessageBinary, buf[:n]) != nil {
				return
			}
		}
		if err != nil { // EIO: the shell ended
			return
		}
	}
}

// receive copies what the browser sends to the shell until either ends.
func receive(ctx context.Context, conn *websocket.Conn, tty *os.File) {
	for {
		kind, message, err := conn.Reader(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			if _, err := io.Copy(tty, message); err != nil {
				return
			}
			continue
		}
		var size struct{ Cols, Rows uint16 }
		if err := json.NewDecoder(message).Decode(&size); err == nil && size.Cols > 0 && size.Rows > 0 {
			_ = pty.Setsize(tty, &pty.Winsize{Cols: size.Cols, Rows: size.Rows})
		}
		if _, err := io.Copy(io.Discard, message); err != nil {
			return
		}
	}
}
