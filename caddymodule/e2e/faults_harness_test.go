package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
)

// scene is an installation in which a person works in one workspace from the beginning to the end, while another
// workspace sleeps. Meanwhile a test breaks a server.
type scene struct {
	*installation
	me           *user
	open, asleep string            // ids
	sums         map[string]string // of the file in each workspace

	work struct {
		sync.Mutex
		done int   // messages that came back
		err  error // what ended the work
	}
	stopWork func()
}

// sleepsAfter is how long a workspace may be idle in a scene.
const sleepsAfter = "TTL_STANDBY_SECONDS=5"

// play makes a scene with settings as for [install].
func play(t *testing.T, settings ...string) *scene {
	t.Helper()
	s := &scene{installation: install(t, append([]string{sleepsAfter}, settings...)...), sums: make(map[string]string)}
	for _, setting := range settings {
		if host, ok := strings.CutPrefix(setting, "DOCKER_HOST="); ok {
			s.lookAt(t, host)
		}
	}
	s.me = s.admin(t)
	s.open = s.me.create(t, "open").ID
	s.me.enter(t, s.open)
	s.startWork(t)
	s.asleep = s.me.create(t, "asleep").ID
	s.me.enter(t, s.asleep)
	for _, id := range []string{s.open, s.asleep} {
		sum := s.me.run(t, byHost.base(s.installation, id), "head -c 3000000 /dev/urandom > big; sha256sum big")
		if len(sum) < 64 {
			t.Fatalf("the checksum is %q", sum)
		}
		s.sums[id] = sum
	}
	s.putToSleep(t, "STANDBY")
	return s
}

// lookAt makes the scene inspect another Docker engine.
func (s *scene) lookAt(t *testing.T, host string) {
	t.Helper()
	s.docker = devenv.Inspect(t, host, s.id)
	s.engine = s.docker
}

// startWork types into the open workspace until the test ends.
func (s *scene) startWork(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	conn, _, err := websocket.Dial(ctx, strings.Replace(byHost.base(s.installation, s.open), "http", "ws", 1)+"echo",
		&websocket.DialOptions{HTTPClient: s.me.http})
	if err != nil {
		t.Fatal(err)
	}
	var typing sync.WaitGroup
	typing.Go(func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			err := conn.Write(ctx, websocket.MessageText, []byte("key"))
			if err == nil {
				_, _, err = conn.Read(ctx)
			}
			s.work.Lock()
			if s.work.done++; err != nil {
				s.work.err = err
			}
			s.work.Unlock()
			if err != nil {
				return
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	s.stopWork = sync.OnceFunc(func() {
		cancel()
		_ = conn.CloseNow()
		typing.Wait()
		s.work.err = nil
		s.stopWork = nil
	})
	t.Cleanup(s.stopWork)
}

// worked returns how many answers the work has received so far, and fails the test if the work was interrupted.
func (s *scene) worked(t *testing.T) int {
	t.Helper()
	s.work.Lock()
	defer s.work.Unlock()
	if s.work.err != nil {
		t.Fatalf("the work in the open workspace was interrupted: %v", s.work.err)
	}
	return s.work.done
}

// worksOn waits until the work has received some more answers. It does not wait if the work was stopped.
func (s *scene) worksOn(t *testing.T) {
	t.Helper()
	if s.stopWork == nil {
		return
	}
	from := s.worked(t)
	wait.Until(t, "the work goes on", func() bool { return s.worked(t) > from+3 })
}

// putToSleep brings the second workspace to STANDBY or ARCHIVED.
func (s *scene) putToSleep(t *testing.T, state string) {
	t.Helper()
	s.me.setDesiredState(t, s.asleep, state)
	s.me.awaitPhase(t, s.asleep, state)
}

// answer is the expected status of an answer, and a text that the answer must contain.
type answer struct {
	status int
	text   string
}

// The usual answers.
var (
	dashboardShown  = answer{http.StatusOK, "CodeHub"}
	workspaceListed = answer{http.StatusOK, `"items":`}
	terminalShown   = answer{http.StatusOK, `id="terminal"`}
	wakePageShown   = answer{http.StatusBadGateway, "data-"}
	apiUnavailable  = answer{http.StatusServiceUnavailable, "urn:codehub:problem:unavailable"}
)

// seen is what users see during a fault; empty fields do not matter.
type seen struct {
	dashboard, api, open, wake answer
}

// usually is what users see while they notice no fault.
var usually = seen{dashboardShown, workspaceListed, terminalShown, wakePageShown}

// shows waits until users see exactly what want says. Only the request that wakes a workspace changes something; all
// others only read.
func (s *scene) shows(t *testing.T, when string, want seen) {
	t.Helper()
	for _, look := range []struct {
		what, url string
		kind      http.Header
		want      answer
	}{
		{"the dashboard", s.url("/"), navigation, want.dashboard},
		{"the API", s.url("/api/v1/workspaces"), program, want.api},
		{"the open workspace", byHost.base(s.installation, s.open), navigation, want.open},
		{"the sleeping workspace", byHost.base(s.installation, s.asleep), navigation, want.wake},
	} {
		if look.want.status == 0 {
			continue
		}
		var body string
		wait.For(t, when+", "+look.what+" shows what it should", func() error {
			var res *http.Response
			if res, body = s.me.get(t, look.url, look.kind); res.StatusCode != look.want.status || !strings.Contains(body, look.want.text) {
				return fmt.Errorf("%s %s", res.Status, body)
			}
			return nil
		})
	}
	s.worksOn(t)
}

// recovers waits until the sleeping workspace can be woken, and checks that its files are as they were. It returns
// how long that took.
func (s *scene) recovers(t *testing.T, fault string) {
	t.Helper()
	began := time.Now()
	wait.For(t, "after "+fault+" the API answers", func() error {
		if res, body := s.me.get(t, s.url("/api/v1/workspaces"), program); res.StatusCode != http.StatusOK {
			return fmt.Errorf("%s %s", res.Status, body)
		}
		return nil
	})
	api := time.Since(began)
	base := byHost.base(s.installation, s.asleep)
	wait.For(t, "after "+fault+" the sleeping workspace wakes up", func() error { return s.me.showsTerminal(t, base) })
	t.Logf("after %s: the API answers after %d ms, the workspace is awake after %d ms", fault, api.Milliseconds(), time.Since(began).Milliseconds())
	s.intact(t, "after "+fault)
	s.worksOn(t)
}

// intact compares the files of both workspaces with what their users have written.
func (s *scene) intact(t *testing.T, when string) {
	t.Helper()
	for id, sum := range s.sums {
		if got := s.me.run(t, byHost.base(s.installation, id), "sha256sum big"); got != sum {
			t.Fatalf("%s the checksum of the file in %s is %q, it was %q", when, id, got, sum)
		}
	}
}

// judges waits until an idle workspace is put to sleep. By then the leader has also decided about the workspace in use,
// which must still run.
func (s *scene) judges(t *testing.T, when string) {
	t.Helper()
	wait.For(t, when+" the unused workspace is put to sleep", func() error {
		if w := s.me.workspace(t, s.asleep); w.Phase != "STANDBY" || w.Operation != "NONE" {
			return fmt.Errorf("it is %s, %s", w.Phase, w.Operation)
		}
		return nil
	})
	s.worksOn(t)
	if w := s.me.workspace(t, s.open); w.Phase != "RUNNING" || w.DesiredState != "RUNNING" {
		t.Errorf("%s the workspace in which a person works is %s and to be %s", when, w.Phase, w.DesiredState)
	}
}

// line is a line of the program's log.
type line struct {
	Level, Logger, Msg, Workspace, Error string
	Outage                               float64 // its length, in the line about its end
}

// lines returns the lines that the program has logged since mark bytes.
func (b *logBuffer) lines(mark int) []line {
	var all []line
	for text := range strings.Lines(b.String()[mark:]) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil {
			all = append(all, l)
		}
	}
	return all
}

// mark returns the present length of the log.
func (s *scene) mark() int { return len(s.log.String()) }

// logged waits until the log after mark contains the beginning and the end of the outage, each exactly once, in
// messages that contain the given texts. No other warning may occur twice either.
func (s *scene) logged(t *testing.T, mark int, begin, end string) {
	t.Helper()
	wait.For(t, "outage and end are logged", func() error {
		count := make(map[string]int)
		for _, l := range s.log.lines(mark) {
			if l.Level == "warn" || l.Level == "error" || l.Outage > 0 {
				count[l.Level+" "+l.Logger+" "+l.Msg+" "+l.Workspace]++
			}
		}
		found := func(text string) (n int) {
			for msg, times := range count {
				if strings.Contains(msg, text) {
					n += times
				}
			}
			return n
		}
		messages := slices.Sorted(maps.Keys(count))
		for msg, times := range count {
			if times > 1 {
				t.Fatalf("logged %d times: %s", times, msg)
			}
		}
		if found(begin) != 1 || found(end) != 1 {
			return errors.New("it is logged:\n" + strings.Join(messages, "\n"))
		}
		t.Logf("logged:\n%s", strings.Join(messages, "\n"))
		return nil
	})
}

// lastUse returns the time of the open workspace's last use in the database.
func (s *scene) lastUse(t *testing.T) time.Time {
	t.Helper()
	var w struct {
		At time.Time `json:"last_access_at"`
	}
	s.me.call(t, http.MethodGet, "/api/v1/workspaces/"+s.open, nil, http.StatusOK, &w)
	return w.At
}

// usedAfter returns an error unless the database has recorded a use of the open workspace later than at.
func (s *scene) usedAfter(t *testing.T, at time.Time) error {
	t.Helper()
	if now := s.lastUse(t); !now.After(at) {
		return fmt.Errorf("the last known use is at %s", now)
	}
	return nil
}
