package memory

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.uber.org/goleak"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// fixture is the [backendtest.Fixture] of one engine. There are no images: the fixture itself behaves like the suite's
// image, both as a workspace and as a storage job. If a pull is to fail, the fixture returns an error of its own.
type fixture struct {
	engine *Engine

	mu    sync.Mutex
	files map[string][]byte // content of the files, by workspace and name

	pools     atomic.Int64
	listening sync.Map // by address: the server of the last container in that slot

	terminal atomic.Value // the variable that identifies the last terminal
	hungUp   atomic.Bool
}

// The slots of the backends. Each backend has its own range, below the ports that the system and the tests' servers
// choose from (see devenv/server).
const (
	firstSlot = 10_000
	poolSize  = 3
)

func TestConformance(t *testing.T) {
	f := &fixture{engine: NewEngine(), files: make(map[string][]byte)}
	t.Cleanup(f.engine.Close)
	f.engine.Forget(missingImage)
	backendtest.Run(t, f)
}

func TestMain(m *testing.M) {
	wait.Main(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"),
		goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

func (f *fixture) New(t *testing.T, installation string) backend.Backend {
	return f.backend(t, installation).Parts()
}

func (f *fixture) backend(t *testing.T, installation string) *Backend {
	b := f.engine.Backend(installation)
	b.Work = func(ctx context.Context, spec backend.JobSpec) (int64, error) { return suiteWork(ctx, b, spec) }
	b.Run = f.command
	b.Pool = backend.Pool{Name: "loopback", First: firstSlot + f.pools.Add(poolSize), Size: poolSize}
	b.Container = func(spec backend.StartSpec) (workspace.Container, error) {
		if strings.Contains(spec.Image, " ") {
			return workspace.Container{}, refusal(spec.Image)
		}
		server := f.serve(b, spec)
		t.Cleanup(server.Close)
		c := workspace.Container{Running: true, Ready: true, Endpoint: server.Listener.Addr().String(), StartedAt: time.Now(), Volume: true}
		if spec.Slot != 0 {
			at := httptest.NewUnstartedServer(server.Config.Handler)
			at.Listener.Close()
			c.Endpoint = fmt.Sprintf("127.0.0.1:%d", spec.Slot)
			if former, ok := f.listening.Load(c.Endpoint); ok { // the server of a former container
				former.(*httptest.Server).Close()
			}
			var err error
			if at.Listener, err = net.Listen("tcp", c.Endpoint); err != nil {
				return workspace.Container{}, fmt.Errorf("%w: %w", backend.ErrAddressInUse, err)
			}
			at.Start()
			f.listening.Store(c.Endpoint, at)
			t.Cleanup(at.Close)
		}
		if spec.Image == sickImage {
			c.Ready, c.Health = false, workspace.HealthUnhealthy
		}
		return c, nil
	}
	b.Fetch = func(_ context.Context, image string, progress func(done, total int64)) error {
		if image == missingImage || strings.Contains(image, " ") {
			return refusal(image)
		}
		progress(1, 2)
		progress(2, 2)
		return nil
	}
	return b
}

const (
	missingImage = "no-such-image"
	sickImage    = "sick"
)

func refusal(image string) error {
	return workspace.Fail(workspace.ReasonImagePullFailed, fmt.Errorf("image %q cannot be pulled", image))
}

func (f *fixture) Hold(t *testing.T, installation string) (backend.Backend, <-chan struct{}, func()) {
	b, held, released := f.backend(t, installation), make(chan struct{}), make(chan struct{})
	b.Before = func(ctx context.Context, method string, _ workspace.ID) error {
		if method == "DeleteVolume" {
			held <- struct{}{}
			<-released
		}
		return nil
	}
	return b.Parts(), held, func() { close(released) }
}

func (f *fixture) LegacyVolume(_ *testing.T, installation string, id workspace.ID) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.volumes[id] = home{origin: origin{owner: installation}}
}

func (f *fixture) PullableImage(*testing.T) string {
	image := "pullable:" + uuid.NewString()
	f.engine.Forget(image)
	return image
}

func (f *fixture) JobName(s backend.JobSpec) string { return s.Name() }

func (f *fixture) SickImage(*testing.T) string { return sickImage }

func (f *fixture) ShellImage(*testing.T) string { return "" }

// as returns the view of the engine that belongs to the owner of the workspace's objects.
func (f *fixture) as(id workspace.ID) *Backend {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return f.engine.Backend(f.engine.volumes[id].owner)
}

func (f *fixture) Pause(_ *testing.T, id workspace.ID) bool {
	f.as(id).Change(id, func(c *workspace.Container) { c.Ready, c.Health = false, workspace.HealthPaused })
	return true
}

func (f *fixture) Break(_ *testing.T, id workspace.ID) (ends bool, repair func()) {
	b, kept := f.as(id), workspace.Job{}
	b.Change(id, func(c *workspace.Container) { c.Unknown = "broken" })
	b.ChangeJobs(id, func(j *workspace.Job) { kept, *j = *j, workspace.Job{Kind: j.Kind, OpID: j.OpID, Unknown: "broken"} })
	return true, func() {
		b.Change(id, func(c *workspace.Container) { c.Unknown = "" })
		b.ChangeJobs(id, func(j *workspace.Job) { *j = kept })
	}
}

func (f *fixture) JobReport(_ *testing.T, id workspace.ID) string {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	var all strings.Builder
	for _, j := range f.engine.jobs[id] {
		fmt.Fprintf(&all, "%+v %+v", j.origin, j.state)
	}
	return all.String()
}

func (f *fixture) Terms(_ *testing.T, id workspace.ID) (terms []string) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	if k := f.engine.containers[id]; k != nil {
		terms = append(terms, k.term)
	}
	for _, j := range f.engine.jobs[id] {
		terms = append(terms, j.term)
	}
	return terms
}

func (f *fixture) Owners(_ *testing.T, id workspace.ID) map[string]string {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	owners := map[string]string{"home": f.engine.volumes[id].user}
	if k := f.engine.containers[id]; k != nil {
		owners["workspace"] = k.user
	}
	for _, j := range f.engine.jobs[id] {
		owners["job"] = j.user
	}
	return owners
}

// serve behaves like the suite's image as a workspace.
func (f *fixture) serve(b *Backend, spec backend.StartSpec) *httptest.Server {
	id, began := spec.ID, time.Now()
	var once sync.Once // the first request shows that it serves, and prints that
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		once.Do(func() { b.Print(id, "serving\n") })
		fmt.Fprint(w, "hello")
	})
	mux.HandleFunc("/exit", func(_ http.ResponseWriter, q *http.Request) {
		code, _ := strconv.Atoi(q.FormValue("code"))
		b.Exit(id, code, time.Since(began), fmt.Sprintf("exiting with %d\n", code))
	})
	mux.HandleFunc("/start", func(w http.ResponseWriter, _ *http.Request) {
		env, _ := strings.CutPrefix(strings.Join(spec.Env, ""), "CODEHUB_TEST=")
		fmt.Fprintln(w, cmp.Or(spec.Hostname, id.ContainerName()), strings.Join(spec.Command, " "), env)
	})
	mux.HandleFunc("/file", func(w http.ResponseWriter, q *http.Request) {
		name := string(id) + "/" + q.FormValue("name")
		body, err := io.ReadAll(q.Body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		if q.Method == http.MethodPut {
			f.files[name] = body
			b.Fill(spec.ID, backend.Usage{Bytes: int64(len(body)), Files: 1})
			return
		}
		_, _ = w.Write(f.files[name])
	})
	mux.HandleFunc("/ticks", func(w http.ResponseWriter, q *http.Request) {
		name := string(id) + "/" + q.FormValue("name")
		for n := 0; b.AwaitThaw(q.Context(), id) == nil; n++ {
			line := fmt.Sprintln(n, time.Now().UnixNano())
			f.mu.Lock()
			f.files[name] = append(f.files[name], line...)
			f.mu.Unlock()
			_, err := io.WriteString(w, line)
			if errors.Join(err, http.NewResponseController(w).Flush()) != nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	return httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if b.AwaitThaw(q.Context(), id) != nil {
			panic(http.ErrAbortHandler) // the process that would answer has ended
		}
		mux.ServeHTTP(w, q)
	}))
}

// suiteWork behaves like the suite's image as a storage job.
func suiteWork(ctx context.Context, b *Backend, spec backend.JobSpec) (int64, error) {
	env := make(map[string]string)
	for _, entry := range spec.Env {
		name, value, _ := strings.Cut(entry, "=")
		env[name] = value
	}
	if want := env["TEST_GRANT"]; want != "" && want != fmt.Sprintf("%x", sha256.Sum256(spec.Grant)) || env["TEST_NO_GRANT"] != "" && spec.Grant != nil {
		return 0, errors.New("the grant is another one")
	}
	for bytes := 0; env["TEST_PROGRESS"] != ""; bytes++ {
		b.Report(spec, backend.ProgressOf(fmt.Appendf(nil, `{"event":"progress","step":"archive","bytes":%d,"seconds":%[1]d}`, bytes)))
		select {
		case <-time.After(time.Millisecond):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	if env["TEST_WAIT"] != "" {
		<-ctx.Done()
		return 0, ctx.Err()
	}
	var end backend.JobEnd
	end.ExitCode, _ = strconv.Atoi(env["TEST_EXIT"])
	size, _ := strconv.ParseInt(env["TEST_SIZE"], 10, 64)
	if env["TEST_SILENT"] == "" {
		var err error
		end.Stdout, err = json.Marshal(contract.Result{
			Contract: contract.Version,
			Event:    contract.EventResult, OK: end.ExitCode == contract.ExitOK, Size: size, Error: env["TEST_ERROR"],
		})
		if err != nil {
			return 0, err
		}
	}
	job := end.Outcome()
	if job.ResultLost {
		return 0, &LostError{job.Message}
	}
	if job.State == workspace.JobFailed {
		return 0, workspace.Fail(job.Reason, errors.New(job.Message))
	}
	return job.Size, nil
}

func (f *fixture) UnlabeledContainer(_ *testing.T, id workspace.ID) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.containers[id] = &container{}
}

func (f *fixture) UnlabeledVolume(_ *testing.T, id workspace.ID) {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	f.engine.volumes[id] = home{}
}

func (f *fixture) ContainerExists(_ *testing.T, id workspace.ID) bool {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return f.engine.containers[id] != nil
}

func (f *fixture) VolumeExists(_ *testing.T, id workspace.ID) bool {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	_, ok := f.engine.volumes[id]
	return ok
}

func (f *fixture) JobCount(_ *testing.T, id workspace.ID) int {
	f.engine.mu.Lock()
	defer f.engine.mu.Unlock()
	return len(f.engine.jobs[id])
}

func (f *fixture) MissingImage(*testing.T) string { return missingImage }

// command behaves like the suite's program that is run as a command, and like the shell commands that hang up a
// terminal.
func (f *fixture) command(ctx context.Context, c backend.Command, stdout, stderr io.Writer) int {
	command, stdin := c.Words, cmp.Or[io.Reader](c.Stdin, strings.NewReader(""))
	if c.Terminal != nil {
		stderr = stdout
	}
	switch {
	case command[0] == "env":
		f.terminal.Store(command[1])
		return terminal(ctx, c, strings.TrimPrefix(command[2], "TERM="), stdout)
	case command[0] == "sh" && len(command) == 5: // the hang-up; the shell command of the suite itself has fewer words
		name, _ := f.terminal.Load().(string)
		f.hungUp.Store(strings.HasSuffix(name, "="+command[4]))
		return 0
	case command[0] != backendtest.ExecProgram:
		fmt.Fprintln(stderr, command[0]+": not found")
		return backend.NotStarted
	case command[1] == backendtest.ExecFlood:
		for ctx.Err() == nil {
			if _, err := fmt.Fprintln(stdout, "x"); err != nil {
				return 0
			}
		}
		return 0
	case command[1] == backendtest.ExecServe:
		<-ctx.Done()
		return 0
	case command[1] == backendtest.ExecInput:
		n, _ := io.Copy(io.Discard, stdin)
		fmt.Fprintln(stdout, n, "bytes")
		return 0
	case command[1] == backendtest.ExecEcho:
		_, _ = io.Copy(stdout, stdin)
		return 0
	case command[1] == backendtest.ExecHungUp:
		fmt.Fprintln(stdout, f.hungUp.Load())
		return 0
	}
	for i, text := range command[3:] {
		fmt.Fprintln([]io.Writer{stdout, stderr}[i%2], text)
	}
	code, _ := strconv.Atoi(command[2])
	return code
}

// terminal behaves like the suite's program in a terminal, including what the terminal itself adds.
func terminal(ctx context.Context, c backend.Command, kind string, out io.Writer) int {
	fmt.Fprint(out, kind, "\r\n")
	line := make(chan string, 1)
	go func() {
		text, _ := bufio.NewReader(c.Stdin).ReadString('\r')
		line <- strings.TrimSuffix(text, "\r")
	}()
	for size := c.Terminal.Size; ; {
		fmt.Fprintf(out, "%d %d\r\n", size.Columns, size.Rows)
		select {
		case size = <-c.Terminal.Resized:
		case text := <-line:
			fmt.Fprintf(out, "%s\r\n%q\r\n", text, text+"\n")
			return 3
		case <-ctx.Done():
			return 0
		}
	}
}
