package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
)

// firstQuarantine is how long a freed address rests in the first minutes of a process before another workspace may get
// it. It does not depend on the process's own lease, because other processes may still have the default lease.
const firstQuarantine = route.DefaultLease + time.Minute

// TestNoOtherWorkspaceGetsARequest: a process that is cut off from PostgreSQL still routes to workspaces that another
// process has put to sleep. Meanwhile other users' workspaces get the addresses of those workspaces as soon as that is
// allowed. None of the other users' workspaces ever gets a request, with its header and cookie, that was meant for the
// workspace that had the address before (SPEC 8).
func TestNoOtherWorkspaceGetsARequest(t *testing.T) {
	t.Parallel()
	const lease = 20 * time.Second
	s := newTakeover(t, lease)
	defer s.passTime(t, firstQuarantine-2*lease)()
	s.run(t)
	if got := s.strangers(t); len(got) > 0 {
		t.Fatalf("other workspaces got the secrets %q", got)
	}

	// The lease has run out. The process cannot know which workspaces still run, so it reaches none.
	answers := make(chan string, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait.Timeout)
	defer cancel()
	go func() {
		_, body, err := s.ask(ctx, s.stays)
		answers <- fmt.Sprint(body, err)
	}()
	s.refusesToAnswer(t, s.stays)
	select {
	case got := <-answers:
		t.Fatalf("a request was answered although the lease has run out: %s", got)
	default:
	}
	s.partition.Hang(false)
	if got := <-answers; !strings.HasPrefix(got, s.stays+"\n") {
		t.Errorf("after the partition the request that was held got %q", got)
	}
	if got := s.strangers(t); len(got) > 0 {
		t.Errorf("after the partition other workspaces got the secrets %q", got)
	}
}

// TestAddressesThatDoNotRestBetraySecrets shows that [TestNoOtherWorkspaceGetsARequest] would notice a failure:
// if freed addresses do not rest and the lease does not run out, other workspaces do get the requests.
func TestAddressesThatDoNotRestBetraySecrets(t *testing.T) {
	t.Parallel()
	s := newTakeover(t, 5*time.Minute)
	defer s.passTime(t, firstQuarantine)()
	s.run(t)
	if len(s.strangers(t)) == 0 {
		t.Error("no other workspace got a secret: would the other test notice one that does?")
	}
}

// takeover is an installation of two processes. One of them is cut off from PostgreSQL while other workspaces get the
// addresses of the owner's workspaces.
type takeover struct {
	*installation               // the leading process
	cutOff        *installation // the other one
	partition     *faulty.Engine
	db            *pgx.Conn
	owner, other  *user
	viaCutOff     *user    // the owner, at the process that is cut off
	stays         string   // a workspace that runs all the time
	victims       []string // workspaces of the owner, who puts them to sleep
	thieves       []string // workspaces of the other user, which get their addresses
	freed         []string // those addresses
}

// victims is the number of workspaces that lose their addresses. others is the number of the subnet's addresses that
// are kept from the owner's workspaces.
const victims, others = 2, 7

func newTakeover(t *testing.T, lease time.Duration) *takeover {
	t.Helper()
	subnet := freeSubnet(t)
	s := &takeover{installation: install(t, "CODEHUB_SUBNET="+subnet, "CODEHUB_ROUTE_LEASE="+lease.String(),
		"LIMITS_MAX_RUNNING_PER_USER=10", "COORDINATOR_MAX_RETRY=1000", "COORDINATOR_NODE_ID=leads")}
	database, err := url.Parse(s.env1("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	if s.db, err = pgx.Connect(t.Context(), database.String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close(context.Background()) }) // the server is about to end
	s.admin(t)                                                 // every user that can sign in has all tables
	s.reserve(t, subnet)

	// The second process reaches PostgreSQL through a proxy, which has the socket's name.
	query, socket := database.Query(), ".s.PGSQL.5432"
	s.partition = faulty.NewEngine(t, "unix://"+filepath.Join(query.Get("host"), socket))
	sockets := t.TempDir()
	if err := os.Symlink(strings.TrimPrefix(s.partition.Host, "unix://"), filepath.Join(sockets, socket)); err != nil {
		t.Fatal(err)
	}
	query.Set("host", sockets)
	database.RawQuery = query.Encode()
	second := *s.installation
	second.port, second.adminSocket, second.log = freePort(t), filepath.Join(sockets, "admin.sock"), &logBuffer{}
	second.env = append(slices.Clone(s.env), "DATABASE_URL="+database.String(), "COORDINATOR_NODE_ID=cut-off",
		fmt.Sprintf("CODEHUB_HTTP_PORT=%d", second.port), "CODEHUB_ADMIN_ADDRESS=unix/"+second.adminSocket)
	s.cutOff = &second
	t.Cleanup(func() {
		s.partition.Hang(false)
		s.cutOff.stop(t)
		if t.Failed() {
			t.Logf("the log of the process that was cut off:\n%s", s.cutOff.log)
		}
	})
	s.cutOff.start(t)

	s.owner, s.other = s.admin(t), s.addUser(t, "other")
	s.viaCutOff = s.cutOff.admin(t)
	s.stays = s.owner.create(t, "stays").ID
	for i := range victims {
		s.victims = append(s.victims, s.owner.create(t, fmt.Sprintf("victim%d", i)).ID)
	}
	return s
}

// env1 returns the value of a variable of the program.
func (in *installation) env1(name string) string {
	for _, v := range slices.Backward(in.env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}

// freeSubnet returns a small subnet that no other test has, because it contains the process id.
func freeSubnet(t *testing.T) string {
	t.Helper()
	port := freePort(t) // of 16 bits, and free otherwise
	return fmt.Sprintf("10.%d.%d.%d/28", 64+port>>12, port>>4&255, port&15<<4)
}

// reserve makes all addresses except those for the owner's workspaces rest for a long time, as if they had just been
// used.
func (s *takeover) reserve(t *testing.T, subnet string) {
	t.Helper()
	prefix, err := spec.ParseSubnet(subnet)
	if err != nil {
		t.Fatal(err)
	}
	first, size := spec.Range(prefix)
	if size != victims+1+others {
		t.Fatalf("the subnet has %d addresses", size)
	}
	_, err = s.db.Exec(t.Context(), `INSERT INTO workspace_addresses (pool, slot, used_at)
		SELECT 'ipv4', slot, clock_timestamp() + interval '1 day' FROM generate_series($1::bigint, $2::bigint) slot`,
		spec.Number(first), spec.Number(first)+others-1)
	if err != nil {
		t.Fatal(err)
	}
}

// passTime makes every freed address look as if it had been freed d earlier. It continues until the returned function
// is called.
func (s *takeover) passTime(t *testing.T, d time.Duration) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	conn, err := pgx.Connect(ctx, s.env1("DATABASE_URL"))
	if err != nil {
		t.Fatal(err)
	}
	var passing sync.WaitGroup
	passing.Go(func() {
		defer conn.Close(context.Background())
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for {
			_, err := conn.Exec(ctx, `UPDATE workspace_addresses SET used_at = used_at - $1::interval
				WHERE used_at BETWEEN clock_timestamp() - $1::interval AND clock_timestamp()`, d)
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Error(err)
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	return func() { cancel(); passing.Wait() }
}

// secretOf is the secret in the owner's requests to the workspace.
func secretOf(id, where string) string { return "secret-" + where + "-" + id }

// ask sends the owner's request, with its secrets, through the process that is cut off. The answer begins with the id
// of the workspace that answered.
func (s *takeover) ask(ctx context.Context, id string) (status int, body string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, byPath.base(s.cutOff, id)+"seen", nil)
	if err != nil {
		return 0, "", err
	}
	req.Header = program.Clone()
	req.Header.Set("Secret", secretOf(id, "header"))
	req.Header.Set("Cookie", "secret="+secretOf(id, "cookie"))
	res, err := s.viaCutOff.http.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return res.StatusCode, string(text), err
}

// run cuts one process off from PostgreSQL, and gives the victims' addresses to the thieves. Meanwhile the owner's
// requests continue through the process that is cut off.
func (s *takeover) run(t *testing.T) {
	t.Helper()
	for _, id := range append([]string{s.stays}, s.victims...) {
		want := id + "\n" + secretOf(id, "cookie") + "\n" + secretOf(id, "header") + "\n"
		wait.For(t, "the second process reaches the workspace, with the secrets", func() error {
			if status, body, err := s.ask(t.Context(), id); body != want {
				return fmt.Errorf("%d %v %s", status, err, body)
			}
			return nil
		})
	}
	for _, id := range s.victims {
		s.freed = append(s.freed, s.addressOf(t, id))
	}
	s.partition.Hang(true)
	began := time.Now()
	if status, body, err := s.ask(t.Context(), s.stays); status != http.StatusOK || !strings.HasPrefix(body, s.stays+"\n") {
		t.Fatalf("without PostgreSQL a running workspace gives %d %v %s", status, err, body)
	}
	stop := s.hammer(t)
	defer stop()
	for _, id := range s.victims {
		s.owner.setDesiredState(t, id, "STANDBY")
	}
	for i := range s.victims {
		var w workspace
		s.other.call(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": fmt.Sprintf("thief%d", i)}, http.StatusCreated, &w)
		s.thieves = append(s.thieves, w.ID)
	}
	for _, id := range s.thieves {
		s.other.awaitPhase(t, id, "RUNNING")
		if at := s.addressOf(t, id); !slices.Contains(s.freed, at) {
			t.Fatalf("the other workspace is at %s, which is none of the freed addresses %v", at, s.freed)
		}
		wait.For(t, "the other workspace answers", func() error {
			if got := s.seenBy(t, id); !strings.HasPrefix(got, id+"\n") {
				return fmt.Errorf("%s", got)
			}
			return nil
		})
	}
	t.Logf("the addresses %v have gone to other workspaces %s after the beginning", s.freed, time.Since(began).Round(time.Second))
	stop()
}

// hammer sends the owner's requests to the victims, several at a time, until the returned function is called. That
// function first waits until each victim has been sent some more requests.
func (s *takeover) hammer(t *testing.T) (stop func()) {
	t.Helper()
	const each = 3
	// A held request ends after this time. Then another request is sent, which might not be held.
	const timeout = 2 * time.Second
	var mu sync.Mutex
	sent, answers := make(map[string]int), make(map[string]int)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for _, id := range s.victims {
		for range each {
			all.Go(func() {
				for ctx.Err() == nil {
					ctx, cancel := context.WithTimeout(ctx, timeout)
					status, body, err := s.ask(ctx, id)
					cancel()
					mu.Lock()
					sent[id]++
					switch {
					case status == http.StatusOK && strings.HasPrefix(body, id+"\n"):
						answers["by the workspace"]++
					case status == http.StatusOK:
						answers["by another one"]++
					case err != nil:
						answers["none yet"]++
					default:
						answers[fmt.Sprint(status)]++
					}
					mu.Unlock()
				}
			})
		}
	}
	return sync.OnceFunc(func() {
		mu.Lock()
		before := sent[s.victims[0]]
		mu.Unlock()
		wait.Until(t, "more requests have been sent", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return sent[s.victims[0]] >= before+2*each
		})
		cancel()
		all.Wait()
		t.Logf("requests through the process that is cut off: %v, answered %v", sent, answers)
	})
}

// refusesToAnswer fails the test unless a request to the workspace is held.
func (s *takeover) refusesToAnswer(t *testing.T, id string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if status, body, err := s.ask(ctx, id); err == nil {
		t.Fatalf("a request got %d %s although the lease has run out", status, body)
	}
}

// strangers returns the secrets from the owner's requests that have reached the thieves.
func (s *takeover) strangers(t *testing.T) (secrets []string) {
	t.Helper()
	for _, id := range s.thieves {
		lines := strings.Split(strings.TrimSpace(s.seenBy(t, id)), "\n")
		if lines[0] != id {
			t.Fatalf("the workspace says %q", lines)
		}
		secrets = append(secrets, lines[1:]...)
	}
	return secrets
}

// seenBy returns the requests that have reached the other user's workspace through the leader.
func (s *takeover) seenBy(t *testing.T, id string) string {
	t.Helper()
	_, body := s.other.get(t, byPath.base(s.installation, id)+"seen", program)
	return body
}
