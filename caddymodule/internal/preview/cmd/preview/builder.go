package main

import (
	"bufio"
	"context"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// self is the package of this program. sources are the files and folders that its pages are built from.
const self = "./caddymodule/internal/preview/cmd/preview"

var sources = []string{"caddymodule/internal", "coordinator", "storagejob/contract", "go.mod"}

// failedPage shows the compiler's output.
const failedPage = `<!doctype html>
<meta name="color-scheme" content="light dark"><h1>It does not compile</h1>
<pre>%s</pre>
`

// builder forwards requests to the newest build of the pages, and rebuilds them when the source has changed.
type builder struct {
	dir   string
	proxy *httputil.ReverseProxy

	mu     sync.Mutex // guards the other fields of this group
	built  time.Time  // the source of the current build is not newer
	failed string     // the compiler's output for the newest source; empty if the build succeeded
	socket string
	stop   func()
}

// newBuilder returns a builder that has not built anything yet.
func newBuilder() (*builder, error) {
	dir, err := os.MkdirTemp("", "codehub-preview-")
	if err != nil {
		return nil, err
	}
	b := &builder{dir: dir, stop: func() {}}
	b.proxy = httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: "preview"})
	b.proxy.Transport = &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		b.mu.Lock()
		defer b.mu.Unlock()
		return new(net.Dialer).DialContext(ctx, "unix", b.socket)
	}, DisableKeepAlives: true}
	b.proxy.ErrorHandler = func(w http.ResponseWriter, _ *http.Request, err error) {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
	return b, nil
}

func (b *builder) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.stop()
	_ = os.RemoveAll(b.dir)
}

// ServeHTTP answers from the newest source, or shows why the build failed.
func (b *builder) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if failed := b.update(); failed != "" {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = fmt.Fprintf(w, failedPage, template.HTMLEscapeString(failed)) // fails only when the client has disconnected
		return
	}
	b.proxy.ServeHTTP(w, r)
}

// update builds the pages if the source is newer, and returns the reason if that fails.
func (b *builder) update() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	newest, err := newestSource()
	if err != nil {
		return err.Error()
	}
	if !newest.After(b.built) {
		return b.failed
	}
	began := time.Now()
	if b.failed = b.build(newest); b.failed == "" {
		fmt.Printf("built in %s\n", time.Since(began).Round(100*time.Millisecond))
	}
	b.built = newest
	return b.failed
}

// newestSource returns the time of the last change to the source.
func newestSource() (newest time.Time, err error) {
	for _, root := range sources {
		err = filepath.WalkDir(root, func(_ string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := d.Info() // includes folders, whose time changes when a file is removed
			if err == nil && info.ModTime().After(newest) {
				newest = info.ModTime()
			}
			return err
		})
		if err != nil {
			return newest, fmt.Errorf("looking for changes: %w", err)
		}
	}
	return newest, nil
}

// build builds the program that serves the pages. If that succeeds, it ends the program that runs and starts the new
// one.
func (b *builder) build(of time.Time) (failed string) {
	program := filepath.Join(b.dir, "pages")
	if out, err := exec.Command("go", "build", "-o", program, self).CombinedOutput(); err != nil {
		return string(out) + err.Error()
	}
	b.stop()
	b.stop = func() {}
	b.socket = filepath.Join(b.dir, fmt.Sprint(of.UnixNano()))
	return b.start(program)
}

// start starts the program with the pages. The pages end with this process, however it ends, because the pipe to their
// standard input closes.
func (b *builder) start(program string) (failed string) {
	cmd := exec.Command(program, "-pages", b.socket)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err.Error()
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err.Error()
	}
	if err := cmd.Start(); err != nil {
		return err.Error()
	}
	b.stop = func() {
		_ = in.Close()
		_ = cmd.Wait() // it ends because its input has ended
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		if err == io.EOF {
			return "the pages cannot be served; the terminal of make preview says why"
		}
		return err.Error()
	}
	return ""
}
