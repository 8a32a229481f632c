// Command testworkspace is the program that the conformance suite runs in containers. It is a workspace that is
// controlled over HTTP, and a storage job that is controlled by its environment.
//
// With the argument "archive" or "restore" it is a job: it prints TEST_ERROR or TEST_SIZE as its result and exits with
// TEST_EXIT. With TEST_WAIT it runs until it is killed, and with TEST_PROGRESS it also prints progress. With
// TEST_SILENT it prints no result. With TEST_GRANT it fails unless its grant has that checksum, and with TEST_NO_GRANT
// it fails if it has a grant.
//
// As a command in a container, "exec" prints its arguments and exits with the first. "input" prints the length of its
// input, and "echo" prints the input itself. "terminal" prints the size of its terminal, each further size, and then a
// line of its input. "hungup" prints whether a terminal has hung up. "flood" prints endlessly, and "listen" listens on
// a port and prints nothing. "usage" counts homes as the storage job's program does. "sick" is a health check that
// always fails.
//
// "serve" with a port makes it a workspace on a port other than 8080. A workspace with TEST_ENDS_WELL ends with 0 when
// it is told to stop. If the value is a name with a dot, it first writes "asked" to the file of its home with that
// name. A workspace with TEST_STAYS does not end when it is told to stop.
package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/usage"
)

func main() {
	port := "8080"
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case contract.JobArchive, contract.JobRestore:
			job()
		case contract.Usage:
			os.Exit(usage.Run(context.Background(), os.Args[2:], os.Getenv, os.Stdout))
		case "sick":
			os.Exit(1)
		case "exec":
			command(os.Args[2:])
		case "input":
			n, err := io.Copy(io.Discard, os.Stdin)
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
			fmt.Println(n, "bytes")
		case "echo":
			if _, err := io.Copy(os.Stdout, os.Stdin); err != nil {
				fmt.Fprintln(os.Stderr, err)
			}
		case "terminal":
			terminal()
		case "hungup":
			_, err := os.Stat(inHome(hangUpFile))
			fmt.Println(err == nil)
		case "listen":
			fmt.Fprintln(os.Stderr, http.ListenAndServe(":"+os.Args[2], nil))
		case "flood":
			for {
				fmt.Println(strings.Repeat("x", 1<<12))
			}
		}
		if len(os.Args) < 3 || os.Args[1] != "serve" {
			return
		}
		port = os.Args[2]
	}
	serve(port)
}

// command prints its arguments after the first, alternately on both streams, and exits with the first.
func command(args []string) {
	for i, text := range args[1:] {
		out := os.Stdout
		if i%2 == 1 {
			out = os.Stderr
		}
		fmt.Fprintln(out, text)
	}
	code, _ := strconv.Atoi(args[0])
	os.Exit(code)
}

// hangUpFile is a file of the home that exists once a terminal has hung up.
const hangUpFile = "hung-up"

// terminal prints TERM, the size of its terminal, each further size, and the first line of its input, and then exits
// with 3. When the terminal hangs up, it creates hangUpFile.
func terminal() {
	resized, hungUp := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	signal.Notify(hungUp, syscall.SIGHUP)
	line := make(chan string)
	go func() {
		text, _ := bufio.NewReader(os.Stdin).ReadString('\n')
		line <- text
	}()
	fmt.Println(os.Getenv("TERM"))
	for {
		if columns, rows, err := term.GetSize(0); err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(columns, rows)
		}
		select {
		case <-resized:
		case text := <-line:
			fmt.Printf("%q\n", text)
			os.Exit(3)
		case <-hungUp:
			if err := os.WriteFile(inHome(hangUpFile), nil, 0o600); err != nil {
				fmt.Println(err)
			}
			os.Exit(4)
		}
	}
}

func job() {
	if os.Getenv("TEST_PROGRESS") != "" {
		out := json.NewEncoder(os.Stdout)
		for p := (contract.ProgressLine{
			Event: contract.EventProgress, Step: contract.StepArchive, BytesPerSecond: 10,
		}); ; p.Bytes++ {
			p.Seconds = float64(p.Bytes) / 10
			_ = out.Encode(p)
			fmt.Fprintln(os.Stderr, "a warning")
			time.Sleep(100 * time.Millisecond)
		}
	}
	if os.Getenv("TEST_WAIT") != "" {
		if err := tryGrant(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
	}
	code, _ := strconv.Atoi(os.Getenv("TEST_EXIT"))
	size, _ := strconv.ParseInt(os.Getenv("TEST_SIZE"), 10, 64)
	if err := errors.Join(tryVolumes(os.Args[1]), tryGrant()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	if os.Getenv("TEST_SILENT") == "" {
		out := json.NewEncoder(os.Stdout)
		_ = out.Encode(contract.ProgressLine{Event: contract.EventProgress, Step: contract.StepArchive})
		_ = out.Encode(contract.Result{
			Event: contract.EventResult, Contract: contract.Version, OK: code == contract.ExitOK, Size: size,
			Error: os.Getenv("TEST_ERROR"),
		})
	}
	os.Exit(code)
}

// tryGrant checks the content of the job's grant, and that only root can read it, or root and the job's own group: a
// cluster assigns mounted files to that group. Unlike a real job it keeps the grant, so that the suite can search for
// it while the job runs.
func tryGrant() error {
	content, err := os.ReadFile(contract.GrantPath)
	if os.Getenv("TEST_NO_GRANT") != "" {
		if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("there is a grant: %w", err)
		}
		return nil
	}
	want := os.Getenv("TEST_GRANT")
	if want == "" {
		return nil
	}
	if err != nil {
		return err
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != want {
		return fmt.Errorf("the grant is another one: %s", got)
	}
	info, err := os.Stat(contract.GrantPath)
	if err != nil {
		return err
	}
	if owner := info.Sys().(*syscall.Stat_t).Uid; owner != 0 || info.Mode()&^0o040 != 0o400 {
		return fmt.Errorf("the grant has the owner %d and the mode %s", owner, info.Mode())
	}
	return nil
}

// tryVolumes checks the permissions that storage jobs need: they can write to the scratch folder, and a restore can
// change a file's owner and still read it without read permission. The root file system must be read-only.
func tryVolumes(kind string) error {
	if err := os.WriteFile(contract.ScratchPath+"/scratch", []byte("scratch"), 0o600); err != nil {
		return err
	}
	if err := os.WriteFile("/elsewhere", nil, 0o600); err == nil {
		return fmt.Errorf("the root file system can be written to")
	}
	if kind != contract.JobRestore {
		return nil
	}
	name := contract.DataPath + "/.job"
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
	return os.Remove(name)
}

// inHome returns the path of a file in the home, which it cannot leave.
func inHome(name string) string { return filepath.Join("/home/coder", filepath.Clean("/"+name)) }

func serve(port string) {
	fmt.Println("serving")
	if os.Getenv("TEST_STAYS") != "" {
		signal.Ignore(syscall.SIGTERM)
	}
	if file := os.Getenv("TEST_ENDS_WELL"); file != "" {
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		go func() {
			<-stop
			if strings.Contains(file, ".") {
				if err := os.WriteFile(inHome(file), []byte("asked"), 0o600); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}
			os.Exit(0)
		}()
	}
	http.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") })
	http.HandleFunc("/exit", func(_ http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		fmt.Fprintln(os.Stderr, "exiting with", code)
		os.Exit(code)
	})
	http.HandleFunc("/file", func(w http.ResponseWriter, r *http.Request) {
		name := inHome(r.FormValue("name"))
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
	// /shared reports whether that many bytes fit into shared memory.
	http.HandleFunc("/shared", func(w http.ResponseWriter, r *http.Request) {
		size, _ := strconv.Atoi(r.FormValue("bytes"))
		if err := os.WriteFile("/dev/shm/test", make([]byte, size), 0o600); err != nil {
			http.Error(w, err.Error(), http.StatusInsufficientStorage)
		}
	})
	// /ticks writes a line every few milliseconds, with its number and its time, to the response and to a file.
	http.HandleFunc("/ticks", func(w http.ResponseWriter, r *http.Request) {
		f, err := os.Create(filepath.Join("/home/coder", filepath.Base(r.FormValue("name"))))
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer f.Close()
		for n := 0; err == nil && r.Context().Err() == nil; n++ {
			line := fmt.Sprintln(n, time.Now().UnixNano())
			_, inFile := io.WriteString(f, line)
			_, inResponse := io.WriteString(w, line)
			err = errors.Join(inFile, inResponse, http.NewResponseController(w).Flush())
			time.Sleep(5 * time.Millisecond)
		}
	})
	// /status shows what the kernel reports about this process's privileges.
	http.HandleFunc("/status", func(w http.ResponseWriter, _ *http.Request) {
		b, _ := os.ReadFile("/proc/self/status")
		host, _ := os.Hostname()
		fmt.Fprintf(w, "Hostname:\t%s\nPPid1:\t%s\n%s", host, initName(), b)
	})
	// /start shows how the container was started.
	http.HandleFunc("/start", func(w http.ResponseWriter, _ *http.Request) {
		host, _ := os.Hostname()
		fmt.Fprintln(w, host, strings.Join(os.Args[1:], " "), os.Getenv("CODEHUB_TEST"))
	})
	// /get reports whether an address can be reached from inside the container.
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
	fmt.Fprintln(os.Stderr, http.ListenAndServe(":"+port, nil))
	os.Exit(1)
}

func initName() string {
	b, _ := os.ReadFile("/proc/1/comm")
	return strings.TrimSpace(string(b))
}
