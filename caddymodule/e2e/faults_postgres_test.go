package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	osuser "os/user"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/wait"
)

// cluster is a PostgreSQL server for one test. The test can stop and start it, and add a replica that follows it.
type cluster struct {
	dir string // has the data, the log and the socket
	cmd *exec.Cmd
}

// newCluster starts a server with an empty database "test".
func newCluster(t *testing.T) *cluster {
	t.Helper()
	c := &cluster{dir: clusterDir(t)}
	postgresCommand(t, "initdb", "-D", c.data(), "-U", "codehub", "-A", "trust", "--locale=C", "-E", "UTF8", "--no-sync")
	c.start(t)
	c.exec(t, "postgres", "CREATE DATABASE test")
	return c
}

// newReplica starts a server that follows the primary.
func newReplica(t *testing.T, primary *cluster) *cluster {
	t.Helper()
	c := &cluster{dir: clusterDir(t)}
	postgresCommand(t, "pg_basebackup", "-h", primary.dir, "-U", "codehub", "-D", c.data(), "-R", "-X", "stream", "-c", "fast", "--no-sync")
	c.start(t)
	return c
}

// clusterDir returns a folder whose path is short enough for a socket.
func clusterDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "codehub-pg")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	if who := postgresUser(t); who != nil {
		if err := os.Chown(dir, int(who.Uid), int(who.Gid)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func (c *cluster) data() string { return filepath.Join(c.dir, "data") }

// databaseURL returns the address of a database. Clients connect to that server among the given ones that accepts
// writes.
func databaseURL(database string, servers ...*cluster) string {
	var hosts []string
	for _, c := range servers {
		hosts = append(hosts, c.dir)
	}
	return "postgres:///" + database + "?" + url.Values{"host": {strings.Join(hosts, ",")}, "user": {"codehub"},
		"port": {strings.Repeat("5432,", len(hosts)-1) + "5432"}, "target_session_attrs": {"read-write"}}.Encode()
}

// start starts the server and waits until it answers.
func (c *cluster) start(t *testing.T) {
	t.Helper()
	log, err := os.OpenFile(filepath.Join(c.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	c.cmd = exec.Command(postgresProgram(t, "postgres"), "-D", c.data(), "-k", c.dir, "-h", "", "-p", "5432",
		"-c", "fsync=off", "-c", "shared_buffers=32MB", "-c", "dynamic_shared_memory_type=mmap", "-c", "max_connections=50")
	c.cmd.Stdout, c.cmd.Stderr, c.cmd.Dir = log, log, "/"
	c.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: postgresUser(t), Pdeathsig: syscall.SIGQUIT, Setpgid: true}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	server := c.cmd
	t.Cleanup(func() { _ = server.Process.Signal(syscall.SIGQUIT); _ = server.Wait() })
	wait.For(t, "PostgreSQL answers", func() error {
		conn, err := pgx.Connect(t.Context(), "postgres:///postgres?user=codehub&host="+url.QueryEscape(c.dir))
		if err != nil {
			return err
		}
		return conn.Close(t.Context())
	})
}

// stop ends the server as an operator does, or immediately with SIGQUIT.
func (c *cluster) stop(t *testing.T, how syscall.Signal) {
	t.Helper()
	if err := c.cmd.Process.Signal(how); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait() // a signal ends it
}

// exec executes statements, one by one.
func (c *cluster) exec(t *testing.T, database string, statements ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), wait.Timeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, "postgres:///"+database+"?user=codehub&host="+url.QueryEscape(c.dir))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	for _, sql := range statements {
		if _, err := conn.Exec(ctx, sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
}

// postgresProgram returns the path of a program of PostgreSQL, which Debian keeps out of
// PATH.
func postgresProgram(t *testing.T, name string) string {
	t.Helper()
	if found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + name); len(found) > 0 {
		return found[len(found)-1]
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// postgresUser is the user that PostgreSQL runs as, because it refuses to run as root.
func postgresUser(t *testing.T) *syscall.Credential {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	u, err := osuser.Lookup("postgres")
	if err != nil {
		t.Fatal(err)
	}
	var c syscall.Credential
	if _, err := fmt.Sscan(u.Uid+" "+u.Gid, &c.Uid, &c.Gid); err != nil {
		t.Fatal(err)
	}
	return &c
}

func postgresCommand(t *testing.T, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), postgresProgram(t, name), args...)
	cmd.Dir, cmd.SysProcAttr = "/", &syscall.SysProcAttr{Credential: postgresUser(t)}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// databaseAway is what users see without PostgreSQL: signed-in users continue to work.
var databaseAway = seen{
	dashboard: dashboardShown, api: apiUnavailable, open: terminalShown, wake: wakePageShown,
}

// TestPostgreSQLRestarted: PostgreSQL crashes and starts again.
func TestPostgreSQLRestarted(t *testing.T) {
	t.Parallel()
	db := newCluster(t)
	s := play(t, "DATABASE_URL="+databaseURL("test", db))
	mark := s.mark()
	db.stop(t, syscall.SIGQUIT)
	s.shows(t, "without PostgreSQL", databaseAway)
	s.createsNothing(t)
	s.tellsStrangers(t)
	db.start(t)
	s.recovers(t, "PostgreSQL was restarted")
	s.judges(t, "after PostgreSQL was restarted")
	s.logged(t, mark, "no notifications from the database", "notifications from the database are back")
}

// TestPostgreSQLFailedOver: the primary fails and its replica takes over.
func TestPostgreSQLFailedOver(t *testing.T) {
	t.Parallel()
	primary := newCluster(t)
	replica := newReplica(t, primary)
	s := play(t, "DATABASE_URL="+databaseURL("test", primary, replica))
	mark := s.mark()
	primary.stop(t, syscall.SIGINT) // in order, after the replica has everything
	s.shows(t, "without a primary", databaseAway)
	replica.exec(t, "postgres", "SELECT pg_promote(true)")
	s.recovers(t, "PostgreSQL has failed over")
	s.judges(t, "after PostgreSQL has failed over")
	s.logged(t, mark, "no notifications from the database", "notifications from the database are back")
}

// TestPostgreSQLReadOnly: PostgreSQL refuses writes, as a hosted PostgreSQL does when its disk is full.
func TestPostgreSQLReadOnly(t *testing.T) {
	t.Parallel()
	db := newCluster(t)
	s := play(t, "DATABASE_URL="+strings.Replace(databaseURL("test", db), "read-write", "any", 1))
	mark := s.mark()
	db.exec(t, "test", "ALTER SYSTEM SET default_transaction_read_only = on", "SELECT pg_reload_conf()")
	s.shows(t, "with a read-only PostgreSQL", usually)
	s.createsNothing(t)
	db.exec(t, "test", "SET default_transaction_read_only = off", "ALTER SYSTEM RESET default_transaction_read_only", "SELECT pg_reload_conf()")
	s.recovers(t, "PostgreSQL was read-only")
	s.judges(t, "after PostgreSQL was read-only")
	s.logged(t, mark, "takes no changes", "requests can be answered again")
}

// tellsStrangers sends requests to the dashboard and to a workspace with a session that the process does not have in
// memory. Each gets a page that names the problem and the remedy.
func (s *scene) tellsStrangers(t *testing.T) {
	t.Helper()
	for lang, want := range map[string]string{"en": "Your files are safe", "ko": "파일은 안전합니다"} {
		header := navigation.Clone()
		unknown := strings.Repeat("A", 43)
		header.Set("Cookie", "session="+unknown+"; codehub_ws="+unknown)
		header.Set("Accept-Language", lang)
		for _, url := range []string{s.url("/"), byHost.base(s.installation, s.open)} {
			if res, body := s.anonymous().get(t, url, header); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, want) {
				t.Errorf("%s in %s: %s %s", url, lang, res.Status, body)
			}
		}
	}
}

// createsNothing checks that a request that changes something is refused, with a problem that tells the client to try
// again.
func (s *scene) createsNothing(t *testing.T) {
	t.Helper()
	wait.For(t, "creating a workspace is refused for the moment", func() error {
		res, body := s.me.request(t, http.MethodPost, "/api/v1/workspaces", map[string]string{"name": "not now"})
		if res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, apiUnavailable.text) || res.Header.Get("Retry-After") == "" {
			return fmt.Errorf("%s %s", res.Status, body)
		}
		return nil
	})
}
