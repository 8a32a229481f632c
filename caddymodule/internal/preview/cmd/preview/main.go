// Command preview serves every page that people see, in every state: `make preview`.
//
// It rebuilds itself when the source has changed, so reloading a page shows the change. It listens on loopback only.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/codehub/gateway/caddymodule/internal/preview"
)

// parentInterval is how often the preview checks that its parent still runs.
const parentInterval = time.Second

func main() {
	listen := flag.String("listen", "127.0.0.1:8090", "the loopback address to listen on")
	socket := flag.String("pages", "",
		"serve the pages on this socket until standard input ends; for the program itself")
	flag.Parse()
	// SIGHUP means that the terminal was closed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	go stopWithoutParent(os.Getppid(), stop)
	err := run(ctx, *listen, *socket)
	if err != nil {
		fmt.Fprintln(os.Stderr, "preview:", err)
		os.Exit(1)
	}
}

// stopWithoutParent calls stop once the parent has ended. A make that is killed cannot notify its children.
func stopWithoutParent(parent int, stop func()) {
	for range time.Tick(parentInterval) {
		if os.Getppid() != parent {
			stop()
			return
		}
	}
}

func run(ctx context.Context, listen, socket string) error {
	if socket != "" {
		return servePages(ctx, socket)
	}
	if host, _, err := net.SplitHostPort(listen); err != nil || !net.ParseIP(host).IsLoopback() {
		return fmt.Errorf("-listen %s is not a loopback address: write for example 127.0.0.1:8090", listen)
	}
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("%w; choose another address: make preview LISTEN=127.0.0.1:8091", err)
	}
	b, err := newBuilder()
	if err != nil {
		return err
	}
	defer b.close()
	fmt.Printf("Every page in every state: http://%s (until Ctrl-C)\n", l.Addr())
	return serve(ctx, l, b)
}

// servePages serves the pages of this build on a socket until the program that started it ends.
func servePages(ctx context.Context, socket string) error {
	p, err := preview.New(".")
	if err != nil {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = os.Stdin.Read(make([]byte, 1)) // returns when the other end closes
		cancel()
	}()
	fmt.Println("ready")
	return serve(ctx, l, p)
}

// serve serves h until ctx ends.
func serve(ctx context.Context, l net.Listener, h http.Handler) error {
	server := &http.Server{Handler: h} //nolint:gosec // for the developer alone
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	return nil
}
