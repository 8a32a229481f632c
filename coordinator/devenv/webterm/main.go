// Command webterm is a small workspace: a terminal in a web page. It replaces an editor that cannot be pulled, and
// shows tests the input that has reached it.
//
//	GET /         the page
//	GET /ws       the terminal's WebSocket
//	ANY /echo     the request line and headers as they arrived; a WebSocket gets
//	              each of its messages back
//	GET /kilobyte a constant answer of 1,024 bytes, for measurements
//	GET /mebibyte the same with 1,048,576 bytes
//	GET /seen     the workspace's id, and every secret that any request has brought here,
//	              in a header Secret or a cookie of that name
//	GET /healthz  200 while it serves
package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/coder/websocket"
)

//go:embed static
var static embed.FS

// maxMessage bounds one WebSocket message, and so one paste, in bytes.
const maxMessage = 16 << 20

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	bind := flag.String("bind-addr", "0.0.0.0:8080", "address to listen on")
	base := flag.String("base-path", "/", "path below which everything is served")
	flag.Parse()

	// Process 1 of a container has no default signal actions. Without a handler, SIGTERM would be
	// ignored, and the engine would wait for all of its grace period.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *bind, *base); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, bind, base string) error {
	ln, err := net.Listen("tcp", bind)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	log.Printf("listening on %s", ln.Addr())
	server := &http.Server{
		Handler:           http.StripPrefix(strings.TrimSuffix(base, "/"), newHandler()),
		ReadHeaderTimeout: 10 * time.Second,
		// Requests end with ctx: open terminals close, and their shells get SIGHUP.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan struct{})
	context.AfterFunc(ctx, func() {
		defer close(ended)
		grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer cancel()
		_ = server.Shutdown(grace)
	})
	if err := server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving: %w", err)
	}
	<-ended
	return nil
}

// newHandler returns everything that this program serves.
func newHandler() http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded under this very name
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	for path, size := range map[string]int{"/kilobyte": 1 << 10, "/mebibyte": 1 << 20} {
		body := bytes.Repeat([]byte("x"), size)
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
	}
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("GET /ws", terminal)
	secrets := new(witness)
	mux.Handle("GET /seen", secrets)
	return secrets.watch(mux)
}

// echo answers with the received text.
func echo(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "%s %s %s\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Proto, r.Host)
		_ = r.Header.Write(w) // it fails for a client that has gone
		return
	}
	conn, err := accept(w, r)
	if err != nil {
		return
	}
	defer conn.CloseNow()
	for {
		kind, message, err := conn.Read(r.Context())
		if err != nil {
			return
		}
		if err := conn.Write(r.Context(), kind, message); err != nil {
			return
		}
	}
}

// accept turns a request into a WebSocket, or answers it with the reason for a refusal. A browser's request must come
// from a page of the same host: otherwise, thanks to the cookies for this host, any page could type into the
// terminal.
func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		log.Printf("refusing a WebSocket: %v", err)
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}
