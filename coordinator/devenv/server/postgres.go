package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	postgresUserName = "codehub"
	// startLimit is how long a server may take to answer. It is long because test
	// machines are busy; a start takes well under a second otherwise.
	startLimit = time.Minute
)

// PostgreSQL is a running private PostgreSQL server. It listens on a Unix socket
// in a folder that only its user can enter; there is no password.
type PostgreSQL struct {
	*Guard
	socketDir string
}

// DSN returns the connection URL of a database of the server.
func (p *PostgreSQL) DSN(database string) string {
	return "postgres:///" + url.PathEscape(database) + "?host=" + url.QueryEscape(p.socketDir) + "&user=" + postgresUserName
}

// StartPostgreSQL starts a server whose data is durable and lives in dir, which
// is made when it is missing. socketDir takes the socket, must be short, and goes
// with the server.
func StartPostgreSQL(dir, socketDir string) (*PostgreSQL, error) {
	data := filepath.Join(dir, "data")
	for _, d := range []string{dir, socketDir} {
		if err := makePrivate(d); err != nil {
			return nil, err
		}
	}
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the version of the PostgreSQL data: %w", err)
	}
	major := strings.TrimSpace(string(version))
	bin, err := postgresBin(major)
	if err != nil {
		return nil, err
	}
	if major == "" {
		// Made under another name first: an interrupted initdb leaves no half cluster.
		if err := initCluster(bin, data, true); err != nil {
			return nil, err
		}
	}
	if err := removeStalePID(filepath.Join(data, "postmaster.pid"), data); err != nil {
		return nil, err
	}
	// The socket of a killed server, and the pid file that belongs to it.
	for _, name := range []string{".s.PGSQL.5432", ".s.PGSQL.5432.lock"} {
		if err := os.RemoveAll(filepath.Join(socketDir, name)); err != nil {
			return nil, fmt.Errorf("removing an old socket: %w", err)
		}
	}
	// The processes of a server whose first process was killed take a moment to notice,
	// and no other server may touch the data before.
	for deadline := time.Now().Add(startLimit); ; time.Sleep(100 * time.Millisecond) {
		pg, err := startPostgres(bin, data, socketDir, guardSpec{
			Argv: []string{"-c", "max_connections=300", "-c", "wal_level=minimal", "-c", "max_wal_senders=0"},
			// Fast shutdown: sessions are ended, a checkpoint is written.
			Stop:   syscall.SIGINT,
			Remove: []string{socketDir},
			Log:    filepath.Join(dir, "postgresql.log"),
		})
		if err == nil || !strings.Contains(err.Error(), "pre-existing shared memory block") || time.Now().After(deadline) {
			return pg, err
		}
	}
}

// StartScratchPostgreSQL starts a server for tests: nothing is durable, and
// everything is gone with the process that called it.
func StartScratchPostgreSQL() (*PostgreSQL, error) {
	bin, err := postgresBin("")
	if err != nil {
		return nil, err
	}
	template, err := templateCluster(bin)
	if err != nil {
		return nil, err
	}
	scratch, err := NewScratch()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(scratch.Dir, "data")
	if err := copyCluster(template, data); err != nil {
		scratch.Remove()
		return nil, err
	}
	argv := []string{}
	for _, setting := range []string{
		"fsync=off", "synchronous_commit=off", "full_page_writes=off", "wal_level=minimal", "max_wal_senders=0",
		"max_connections=300", "shared_buffers=64MB", "checkpoint_timeout=1h", "jit=off",
	} {
		argv = append(argv, "-c", setting)
	}
	pg, err := startPostgres(bin, data, scratch.Dir, guardSpec{
		Argv: argv,
		// Immediate shutdown: nothing is written, but shared memory is given back,
		// which SIGKILL would not do.
		Stop:   syscall.SIGQUIT,
		Remove: []string{scratch.Dir},
		Log:    filepath.Join(scratch.Dir, "log"),
	}, scratch.lock)
	if err != nil {
		scratch.Remove()
		return nil, err
	}
	scratch.lock.Close() // the guard has its own copy
	return pg, nil
}

// startPostgres starts the server and waits until it answers. spec.Argv are the
// settings.
func startPostgres(bin, data, socketDir string, spec guardSpec, keep ...*os.File) (*PostgreSQL, error) {
	spec.Argv = append([]string{filepath.Join(bin, "postgres"), "-D", data, "-k", socketDir, "-h", "", "-p", "5432",
		"-c", "unix_socket_permissions=0700", "-c", "logging_collector=off",
		// In the data's folder, which goes with a server that was killed.
		"-c", "dynamic_shared_memory_type=mmap"}, spec.Argv...)
	spec.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "TZ=UTC"}
	spec.Unroot = true
	if uid, gid, ok, err := unrootOwner(); err != nil {
		return nil, err
	} else if ok {
		if err := chownTree(uid, gid, data, socketDir); err != nil {
			return nil, err
		}
	}
	guard, err := startGuard(spec, keep...)
	if err != nil {
		return nil, err
	}
	pg := &PostgreSQL{Guard: guard, socketDir: socketDir}
	if err := guard.await("PostgreSQL", startLimit, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		conn, err := pgx.Connect(ctx, pg.DSN("postgres"))
		if err != nil {
			return err
		}
		return conn.Close(ctx)
	}); err != nil {
		return nil, err
	}
	return pg, nil
}

// CreateDatabase makes an empty database unless one of that name exists.
func (p *PostgreSQL) CreateDatabase(ctx context.Context, name string) error {
	return p.exec(ctx, func(conn *pgx.Conn) error {
		var exists bool
		if err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil || exists {
			return err
		}
		_, err := conn.Exec(ctx, "CREATE DATABASE "+pgx.Identifier{name}.Sanitize())
		return err
	})
}

// DropDatabase removes a database and ends the sessions that use it.
func (p *PostgreSQL) DropDatabase(ctx context.Context, name string) error {
	return p.exec(ctx, func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
		return err
	})
}

func (p *PostgreSQL) exec(ctx context.Context, do func(*pgx.Conn) error) error {
	conn, err := pgx.Connect(ctx, p.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("connecting to the private PostgreSQL: %w", err)
	}
	defer conn.Close(ctx)
	if err := do(conn); err != nil {
		return fmt.Errorf("asking the private PostgreSQL: %w", err)
	}
	return nil
}

// PostgreSQLInstalled returns a [MissingError] when there is no PostgreSQL server
// program to start.
func PostgreSQLInstalled() error {
	_, err := postgresBin("")
	return err
}

// postgresBin finds the folder of PostgreSQL's programs: of that major version,
// or the newest one. Debian keeps it out of PATH.
func postgresBin(major string) (string, error) {
	var dirs []string
	for _, pattern := range []string{"/usr/lib/postgresql/*/bin", "/opt/homebrew/opt/postgresql@*/bin", "/usr/local/opt/postgresql@*/bin"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return "", fmt.Errorf("looking for PostgreSQL: %w", err)
		}
		dirs = append(dirs, found...)
	}
	slices.SortFunc(dirs, func(a, b string) int { return binMajor(b) - binMajor(a) })
	if p, ok := firstExecutable("initdb"); ok {
		dirs = append(dirs, filepath.Dir(p))
	}
	for _, dir := range dirs {
		if major != "" && binMajor(dir) != 0 && strconv.Itoa(binMajor(dir)) != major {
			continue
		}
		if isExecutable(filepath.Join(dir, "initdb")) && isExecutable(filepath.Join(dir, "postgres")) {
			return dir, nil
		}
	}
	if major != "" {
		return "", &MissingError{Program: "PostgreSQL " + major + ", which made the data that is there,", Package: "postgresql-" + major}
	}
	return "", &MissingError{Program: "PostgreSQL's server", Package: "postgresql"}
}

// binMajor reads the major version from a folder like /usr/lib/postgresql/15/bin;
// 0 when it has none.
func binMajor(dir string) int {
	name := filepath.Base(filepath.Dir(dir))
	n, err := strconv.Atoi(name[strings.LastIndex(name, "@")+1:])
	if err != nil {
		return 0
	}
	return n
}

// templateCluster returns a freshly made cluster in the cache, for copying: initdb
// takes seconds, a copy a fraction of one.
func templateCluster(bin string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	out, err := exec.Command(filepath.Join(bin, "postgres"), "--version").Output()
	if err != nil {
		return "", fmt.Errorf("asking PostgreSQL for its version: %w", err)
	}
	version := strings.Map(func(r rune) rune {
		if strings.ContainsRune("0123456789.", r) {
			return r
		}
		return -1
	}, strings.SplitN(string(out), "(", 3)[1])
	template := filepath.Join(cache, "postgresql-"+version)
	lock, err := Lock(template + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(filepath.Join(template, "PG_VERSION")); err == nil {
		return template, nil
	}
	return template, initCluster(bin, template, false)
}

// initCluster runs initdb. The cluster appears under its name when it is whole.
func initCluster(bin, data string, durable bool) error {
	half := data + ".new"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("removing an unfinished cluster: %w", err)
	}
	if err := makePrivate(half); err != nil {
		return err
	}
	if uid, gid, ok, err := unrootOwner(); err != nil {
		return err
	} else if ok {
		if err := chownTree(uid, gid, half); err != nil {
			return err
		}
	}
	attr, err := unrootAttr()
	if err != nil {
		return err
	}
	// trust: whoever can enter the socket's folder is the same user.
	args := []string{"-D", half, "-U", postgresUserName, "-A", "trust", "-E", "UTF8", "--locale=C"}
	if !durable {
		args = append(args, "--no-sync")
	}
	cmd := exec.Command(filepath.Join(bin, "initdb"), args...)
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/bin:/bin", "TZ=UTC"}
	cmd.SysProcAttr = attr
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("making a PostgreSQL cluster: %w\n%s", err, out)
	}
	if err := os.Rename(half, data); err != nil {
		return fmt.Errorf("putting the PostgreSQL cluster in place: %w", err)
	}
	return nil
}

// copyCluster copies a cluster that nobody runs.
func copyCluster(from, to string) error {
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		return fmt.Errorf("copying the prepared PostgreSQL cluster: %w", err)
	}
	// CopyFS makes everything readable for all; PostgreSQL insists on a private folder.
	if err := os.Chmod(to, 0o700); err != nil {
		return fmt.Errorf("making the copied cluster private: %w", err)
	}
	return nil
}

func chownTree(uid, gid int, roots ...string) error {
	for _, root := range roots {
		if err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Lchown(path, uid, gid)
		}); err != nil {
			return fmt.Errorf("giving %s to PostgreSQL's user: %w", root, err)
		}
	}
	return nil
}

// makePrivate makes a folder that only its owner can enter.
func makePrivate(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("making a folder: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return fmt.Errorf("making %s private: %w", dir, err)
	}
	return nil
}
