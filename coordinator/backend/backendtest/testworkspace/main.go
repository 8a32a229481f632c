// Testworkspace is what the conformance suite runs: a workspace that does as it is
// told by HTTP, and a storage job that ends as its environment says.
//
// Called "archive" or "restore" it is a job: it prints TEST_ERROR or TEST_SIZE as
// its result and ends with TEST_EXIT; with TEST_WAIT it does not end by itself;
// with TEST_SILENT it prints no result. "sick" always fails, for health checks.
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

func main() {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case "archive", "restore":
			job()
		case "sick":
			os.Exit(1)
		}
		return
	}
	serve()
}

func job() {
	if os.Getenv("TEST_WAIT") != "" {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
	}
	code, _ := strconv.Atoi(os.Getenv("TEST_EXIT"))
	size, _ := strconv.ParseInt(os.Getenv("TEST_SIZE"), 10, 64)
	if err := tryVolumes(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv("TEST_SILENT") == "" {
		fmt.Println(`{"event":"progress","step":"archive"}`)
		_ = json.NewEncoder(os.Stdout).Encode(map[string]any{
			"event": "result", "ok": code == 0, "size": size, "error": os.Getenv("TEST_ERROR")})
	}
	os.Exit(code)
}

// tryVolumes does what storage jobs do with a home of any owner: it gives a file to
// somebody else, closes it, and still reads it. Nothing else may be written to.
func tryVolumes() error {
	name := "/data/.job"
	if err := os.WriteFile(name, []byte("job"), 0o600); err != nil {
		return err
	}
	if err := os.Chown(name, 1234, 1234); err != nil {
		return err
	}
	if err := os.Chmod(name, 0); err != nil {
		return err
	}
	if _, err := os.ReadFile(name); err != nil {
		return err
	}
	if err := os.WriteFile("/tmp/scratch", []byte("scratch"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile("/elsewhere", nil, 0o600); err == nil {
		return fmt.Errorf("the root file system can be written to")
	}
	return os.Remove(name)
}

func serve() {
	fmt.Println("serving")
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	http.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		fmt.Fprintln(os.Stderr, "leaving with", code)
		os.Exit(code)
	})
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Join("/home/coder", filepath.Base(r.FormValue("name")))
		if r.Method == http.MethodPut {
			body, err := io.ReadAll(r.Body)
			if err == nil {
				err = os.WriteFile(name, body, 0o600)
			}
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
			}
			return
		}
		http.ServeFile(w, r, name)
	})
	// What the kernel says about this process's rights.
	http.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		b, _ := os.ReadFile("/proc/self/status")
		host, _ := os.Hostname()
		fmt.Fprintf(w, "Hostname:\t%s\nPPid1:\t%s\n%s", host, initName(), b)
	})
	// Whether another address can be reached from inside.
	http.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		client := http.Client{Timeout: 1e9}
		resp, err := client.Get(r.FormValue("url"))
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer resp.Body.Close()
		_, _ = io.Copy(w, resp.Body)
	})
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":8080", nil))
	os.Exit(1)
}

func initName() string {
	b, _ := os.ReadFile("/proc/1/comm")
	return strings.TrimSpace(string(b))
}
