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

// terminal runs a shell per WebSocket. Binary messages are the terminal's bytes, both ways;
// a text message from the browser is a new size, {"cols":80,"rows":24}.
func terminal(w http.ResponseWriter, r *http.Request) {
	conn, err := accept(w, r)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	if err := serveShell(r.Context(), conn); err != nil {
		log.Printf("terminal: %v", err)
		_ = conn.Close(websocket.StatusInternalError, "the shell could not be started")
	}
}

// serveShell runs a shell until it or the connection ends. Its only error is a failed start of the shell.
func serveShell(ctx context.Context, conn *websocket.Conn) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-l")
	cmd.Env, cmd.Dir = append(os.Environ(), "TERM=xterm-256color"), os.Getenv("HOME")
	// Closing a terminal hangs up; only a shell that ignores that is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGHUP) }
	cmd.WaitDelay = time.Second
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Cols: 80, Rows: 24})
	if err != nil {
		return fmt.Errorf("starting a shell: %w", err)
	}
	defer context.AfterFunc(ctx, func() { tty.Close() })() // ends a blocked Read
	// It ends with the connection, which the caller closes next.
	go func() {
		defer cancel()
		receive(ctx, conn, tty)
	}()
	_, _ = io.Copy(binary{ctx, conn}, tty) // EIO: the shell ended
	// Close the connection before cancel is called: cancel would break it off while it is being read.
	_ = conn.Close(websocket.StatusNormalClosure, "the shell ended")
	cancel()
	tty.Close()
	_ = cmd.Wait() // its exit code is the user's business
	return nil
}

// binary writes binary messages.
type binary struct {
	ctx  context.Context
	conn *websocket.Conn
}

// Write implements io.Writer.
func (b binary) Write(p []byte) (int, error) {
	return len(p), b.conn.Write(b.ctx, websocket.MessageBinary, p)
}

// receive copies what the browser sends to the shell until either ends.
func receive(ctx context.Context, conn *websocket.Conn, tty *os.File) {
	for {
		kind, message, err := conn.Read(ctx)
		if err != nil {
			return
		}
		if kind == websocket.MessageBinary {
			_, err = tty.Write(message)
		} else if size := (pty.Winsize{}); json.Unmarshal(message, &size) == nil && size.Cols > 0 && size.Rows > 0 {
			_ = pty.Setsize(tty, &size)
		}
		if err != nil {
			return
		}
	}
}
