// Command webterm is a small workspace: a terminal in a web page. It stands in for
// an editor where none can be had, and shows to tests what reached it.
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

// maxMessage bounds one WebSocket message: what somebody may paste at once.
const maxMessage = 16 << 20

func main() {
	log.SetFlags(log.LstdFlags | log.Lmicroseconds)
	bind := flag.String("bind-addr", "0.0.0.0:8080", "address to listen on")
	shell := flag.String("shell", "/bin/sh", "program that runs in the terminal")
	base := flag.String("base-path", "/", "path below which everything is served")
	delay := flag.Duration("delay", 0, "wait before listening, like an editor that is slow to start")
	flag.Parse()

	// Process 1 of a container has no default signal actions: without a handler,
	// SIGTERM would be ignored and stopping would take the engine's whole patience.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, *bind, *shell, *base, *delay); err != nil {
		log.Print(err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, bind, shell, base string, delay time.Duration) error {
	select {
	case <-time.After(delay):
	case <-ctx.Done():
		return nil
	}
	ln, err := net.Listen("tcp", bind)
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	log.Printf("listening on %s", ln.Addr())
	server := &http.Server{
		Handler:           http.StripPrefix(strings.TrimSuffix(base, "/"), newHandler(shell)),
		ReadHeaderTimeout: 10 * time.Second,
		// Requests end with ctx: open terminals close, and their shells get SIGHUP.
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	select {
	case err := <-ended:
		return fmt.Errorf("serving: %w", err)
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}

// newHandler returns everything that this program serves.
func newHandler(shell string) http.Handler {
	files, err := fs.Sub(static, "static")
	if err != nil {
		panic(err) // the folder is embedded under this very name
	}
	mux := http.NewServeMux()
	mux.Handle("/", http.FileServerFS(files))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	kilobyte := []byte(strings.Repeat("x", 1<<10))
	mux.HandleFunc("GET /kilobyte", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(kilobyte) })
	mebibyte := []byte(strings.Repeat("x", 1<<20))
	mux.HandleFunc("GET /mebibyte", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(mebibyte) })
	mux.HandleFunc("/echo", echo)
	mux.Handle("GET /ws", terminal{shell: shell})
	secrets := new(witness)
	mux.Handle("GET /seen", secrets)
	return secrets.watch(mux)
}

// echo answers with what it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	if !strings.EqualFold(r.Header.Get("Upgrade"), "websocket") {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		fmt.Fprintf(w, "%s %s %s\r\nHost: %s\r\n", r.Method, r.RequestURI, r.Proto, r.Host)
		_ = r.Header.Write(w) // the client has gone: nobody to tell
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

// accept turns a request into a WebSocket, or answers it with the reason why not.
// A browser's request must come from a page of the same host: the cookies that
// lead here would let any page type into the terminal otherwise.
func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	conn, err := websocket.Accept(w, r, nil)
	if err != nil {
		log.Printf("refusing a WebSocket: %v", err)
		return nil, err
	}
	conn.SetReadLimit(maxMessage)
	return conn, nil
}
