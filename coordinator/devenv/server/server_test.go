package server_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// ownerEnv makes this test binary a program that starts servers and then waits, to
// be killed.
const ownerEnv = "CODEHUB_TEST_SERVER_OWNER"

func TestMain(m *testing.M) {
	if os.Getenv(ownerEnv) != "" {
		own()
		return
	}
	os.Exit(m.Run())
}

func own() {
	pgStorage, pgErr := server.Scratch(true)
	redisStorage, redisErr := server.Scratch(true)
	if err := errors.Join(pgErr, redisErr); err != nil {
		fmt.Println(err)
		return
	}
	pg, pgErr := server.StartPostgreSQL(pgStorage)
	r, redisErr := server.StartRedis(redisStorage)
	if err := errors.Join(pgErr, redisErr); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(pg.DSN("postgres"))
	fmt.Println(r.URL())
	select {}
}

// A killed process cannot clean up, and yet leaves nothing behind: its servers end and their folders are removed.
func TestServersEndWithAKilledOwner(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), ownerEnv+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test fails before it does so
	lines := bufio.NewScanner(out)
	var said []string
	for len(said) < 2 && lines.Scan() {
		said = append(said, lines.Text())
	}
	if len(said) < 2 || !strings.HasPrefix(said[0], "postgres:") {
		t.Fatalf("the owner said %q", said)
	}
	conf, err := pgx.ParseConfig(said[0])
	if err != nil {
		t.Fatal(err)
	}
	opts, err := redis.ParseURL(said[1])
	if err != nil {
		t.Fatal(err)
	}
	dirs := []string{conf.Host, filepath.Dir(opts.Addr)}
	pids := []int{readPID(t, filepath.Join(conf.Host, "data", "data", "postmaster.pid"))}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	wait.For(t, "nothing of them is left", func() error {
		for _, dir := range dirs {
			if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%s is still there", dir)
			}
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, 0); err == nil {
				return fmt.Errorf("process %d still runs", pid)
			}
		}
		return nil
	})
}

// The next start removes what a killed supervisor leaves; folders in use stay.
func TestSweep(t *testing.T) {
	root := t.TempDir()
	t.Setenv("TMPDIR", root)
	folder := func(name string, files ...string) string {
		t.Helper()
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.WriteFile(filepath.Join(dir, f), []byte("token"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	used := folder("codehub-scratch-x-used", "data.lock")
	lock, err := server.Lock(filepath.Join(used, "data.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	stale := folder("codehub-scratch-x-stale", "data.lock")
	young := folder("codehub-scratch-x-young")     // its server is just being started
	locking := folder("codehub-scratch-x-locking") // and its supervisor is about to lock it
	if err := os.WriteFile(filepath.Join(locking, "data.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	old := folder("codehub-scratch-x-old")
	hourAgo := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, hourAgo, hourAgo); err != nil {
		t.Fatal(err)
	}
	if _, err := server.Scratch(false); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{used: true, stale: false, young: true, locking: true, old: false} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", dir, err == nil, want)
		}
	}
}

// Data of a durable server is there after an orderly end and after a kill. This holds even if another process has the
// number in the server's pid file by then.
func TestPostgreSQLRecovers(t *testing.T) {
	dir := t.TempDir()
	start := func() (*server.PostgreSQL, *pgx.Conn) {
		t.Helper()
		pg, err := server.StartPostgreSQL(server.Durable(dir, strings.Repeat("long", 20)))
		if err != nil {
			t.Fatal(err)
		}
		if err := pg.CreateDatabase(t.Context(), "kept"); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(t.Context(), pg.DSN("kept"))
		if err != nil {
			t.Fatal(err)
		}
		return pg, conn
	}
	exec := func(conn *pgx.Conn, sql string) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	pg, conn := start()
	exec(conn, "CREATE TABLE seen (n int)")
	conn.Close(t.Context())
	if err := pg.Stop(); err != nil {
		t.Fatalf("stopping: %v", err)
	}
	if err := pg.Stop(); err != nil {
		t.Fatalf("stopping again: %v", err)
	}

	pg, conn = start()
	exec(conn, "INSERT INTO seen VALUES (1)")
	pidFile := filepath.Join(dir, strings.Repeat("long", 20), "data", "postmaster.pid")
	if err := syscall.Kill(readPID(t, pidFile), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	wait.For(t, "its end is noticed", func() error {
		if !pg.Exited() {
			return errors.New("the supervisor lives on after its server was killed")
		}
		return nil
	})
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatalf("the killed server left no pid file: %v", err)
	}
	_, rest, _ := strings.Cut(string(text), "\n")
	if err := os.WriteFile(pidFile, []byte(strconv.Itoa(os.Getpid())+"\n"+rest), 0o600); err != nil {
		t.Fatal(err)
	}

	pg, conn = start()
	defer pg.Stop()
	var n int
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM seen").Scan(&n); err != nil || n != 1 {
		t.Errorf("%d rows, %v; want 1", n, err)
	}
}

func TestRedisKeepsItsData(t *testing.T) {
	dir := t.TempDir()
	for want := int64(1); want <= 2; want++ {
		s := server.Durable(dir, "redis")
		r, err := server.StartRedis(s)
		if err != nil {
			t.Fatal(err)
		}
		opts, err := redis.ParseURL(r.URL())
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(opts)
		if n, err := client.Incr(t.Context(), "starts").Result(); err != nil || n != want {
			t.Errorf("start %d counts %d, %v", want, n, err)
		}
		client.Close()
		if err := r.Stop(); err != nil {
			t.Errorf("stopping: %v", err)
		}
		if _, err := os.Stat(s.Sockets); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the socket's folder is left: %v", err)
		}
	}
}

// The error of a server that cannot start contains the end of its log.
func TestStartErrorShowsTheServersLog(t *testing.T) {
	dir := t.TempDir()
	s := server.Durable(dir, "redis")
	if err := errors.Join(os.Mkdir(s.Dir, 0o700),
		os.WriteFile(filepath.Join(s.Dir, "appendonlydir"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	_, err := server.StartRedis(s)
	if err == nil || !strings.Contains(err.Error(), "appendonlydir") {
		t.Errorf("the error does not tell what is wrong: %v", err)
	}
}

func TestTryLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	first, err := server.TryLock(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := server.TryLock(path); !errors.Is(err, server.ErrLocked) {
		t.Fatalf("a held lock is given out: %v", err)
	}
	first.Close()
	second, err := server.TryLock(path)
	if err != nil {
		t.Fatalf("a lock is not free after its holder: %v", err)
	}
	second.Close()
}

func TestSocketDirIsShort(t *testing.T) {
	if short := "/repo/.codehub/run/redis"; server.SocketDir(short) != short {
		t.Errorf("%s became %s", short, server.SocketDir(short))
	}
	long := "/home/" + strings.Repeat("long", 30)
	dir, other := server.SocketDir(long), server.SocketDir(long+"x")
	if len(dir) > 60 || dir == other {
		t.Errorf("sockets of two folders are in %s and %s", dir, other)
	}
}

func readPID(t *testing.T, path string) int {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	first, _, _ := strings.Cut(string(b), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}
