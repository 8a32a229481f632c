package server

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// postgresUserName is the role of every user who can enter the socket's folder.
const postgresUserName = "codehub"

// PostgreSQL is a running private PostgreSQL server. It listens on a Unix socket in a
// folder that only its user can enter; there is no password.
type PostgreSQL struct {
	*Process
	sockets string
	major   int // the server's version
}

// DSN returns the connection URL of a database of the server.
func (p *PostgreSQL) DSN(database string) string {
	return "postgres:///" + url.PathEscape(database) + "?host=" + url.QueryEscape(p.sockets) + "&user=" +
		postgresUserName
}

// StartPostgreSQL starts a server, and makes its data if it is missing.
func StartPostgreSQL(s Storage) (*PostgreSQL, error) {
	p, err := s.Program("PostgreSQL")
	if err != nil {
		return nil, err
	}
	if p.Credential, p.Caps, err = dropPrivileges(); err != nil {
		return nil, err
	}
	data := filepath.Join(s.Dir, "data")
	bin, err := prepareData(data)
	if err != nil {
		return nil, err
	}
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err != nil {
		return nil, fmt.Errorf("reading the version of the PostgreSQL data: %w", err)
	}
	major, _ := strconv.Atoi(strings.TrimSpace(string(version))) // 0 before version 10
	// The credential may differ from the last run's.
	if err := giveTo(p.Credential, s.Dir); err != nil {
		return nil, err
	}
	p.Argv = []string{
		filepath.Join(bin, "postgres"), "-D", data, "-k", s.Sockets, "-h", "", "-p", "5432",
		"-c", "unix_socket_permissions=0700", "-c", "logging_collector=off", "-c", "max_connections=300",
		// Shared memory is in the data's folder, which is removed even if a scratch server is killed.
		"-c", "dynamic_shared_memory_type=mmap",
	}
	// Fast shutdown: sessions are ended, a checkpoint is written.
	p.Stop = syscall.SIGINT
	// Durable data keeps PostgreSQL's own settings. Under wal_level=minimal, an identity column that was used in the
	// transaction that created it repeats its values after a crash, unless there was a checkpoint before.
	if s.scratch != "" {
		for _, setting := range []string{"fsync=off", "synchronous_commit=off", "full_page_writes=off",
			"wal_level=minimal", "max_wal_senders=0", "shared_buffers=64MB", "checkpoint_timeout=1h", "jit=off",
			// PostgreSQL divides this time by the number of databases. With the default of a minute and hundreds of
			// databases, a worker would start several times a second.
			"autovacuum_naptime=10min"} {
			p.Argv = append(p.Argv, "-c", setting)
		}
		// Immediate shutdown: the server writes nothing, but frees its shared memory. After SIGKILL the memory would
		// stay in use.
		p.Stop = syscall.SIGQUIT
	}
	socket := filepath.Join(s.Sockets, ".s.PGSQL.5432")
	p.Stale = []string{filepath.Join(data, "postmaster.pid"), socket, socket + ".lock"}
	pg := &PostgreSQL{sockets: s.Sockets, major: major}
	p.Ready = func() error {
		ctx, cancel := context.WithTimeout(context.Background(), startLimit)
		defer cancel()
		return pg.exec(ctx, "SELECT 1")
	}
	if pg.Process, err = Start(p); err != nil {
		return nil, err
	}
	return pg, nil
}

// CreateDatabase makes an empty database unless one of that name exists.
func (p *PostgreSQL) CreateDatabase(ctx context.Context, name string) error {
	return p.CopyDatabase(ctx, name, "template1")
}

// CopyDatabase copies a database to which no session is connected, unless one of the new name exists.
func (p *PostgreSQL) CopyDatabase(ctx context.Context, name, original string) error {
	sql := "CREATE DATABASE " + pgx.Identifier{name}.Sanitize() + " TEMPLATE " + pgx.Identifier{original}.Sanitize()
	if p.major >= 15 {
		sql += " STRATEGY file_copy" // as older servers do; through the log it takes five times as long
	}
	err := p.exec(ctx, sql)
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.Code == "42P04" {
		return nil
	}
	return err
}

// DropDatabase removes a database and ends the sessions that use it.
func (p *PostgreSQL) DropDatabase(ctx context.Context, name string) error {
	return p.exec(ctx, "DROP DATABASE IF EXISTS "+pgx.Identifier{name}.Sanitize()+" WITH (FORCE)")
}

func (p *PostgreSQL) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, p.DSN("postgres"))
	if err != nil {
		return fmt.Errorf("connecting to the private PostgreSQL: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("asking the private PostgreSQL: %w", err)
	}
	return nil
}

// postgresBin finds the folder of PostgreSQL's programs of a major version, or, for "*",
// of the newest one. Debian keeps it out of PATH.
func postgresBin(major string) (string, error) {
	found, err := filepath.Glob("/usr/lib/postgresql/" + major + "/bin/postgres")
	if err != nil {
		return "", fmt.Errorf("looking for PostgreSQL: %w", err)
	}
	if len(found) > 0 {
		return filepath.Dir(found[len(found)-1]), nil
	}
	path, err := find("postgres")
	if err != nil {
		return "", fmt.Errorf("version %s: %w", major, err)
	}
	return filepath.Dir(path), nil
}

// prepareData makes a cluster in data unless there is one, and returns the folder of the matching programs.
func prepareData(data string) (bin string, err error) {
	version, err := os.ReadFile(filepath.Join(data, "PG_VERSION"))
	if err == nil {
		return postgresBin(strings.TrimSpace(string(version)))
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("reading the version of the PostgreSQL data: %w", err)
	}
	if bin, err = postgresBin("*"); err != nil {
		return "", err
	}
	template, err := templateCluster(bin)
	if err != nil {
		return "", err
	}
	return bin, replace(data, func(half string) error {
		if err := os.CopyFS(half, os.DirFS(template)); err != nil {
			return err
		}
		// CopyFS makes everything readable for all; PostgreSQL requires a private folder.
		return os.Chmod(half, 0o700)
	})
}

// templateCluster returns a new cluster in the cache, for copying: initdb takes seconds, a copy a fraction of a second.
func templateCluster(bin string) (string, error) {
	cache, err := CacheDir()
	if err != nil {
		return "", err
	}
	initdb := filepath.Join(bin, "initdb")
	info, err := os.Stat(initdb)
	if err != nil {
		return "", fmt.Errorf("looking for PostgreSQL: %w", err)
	}
	template := filepath.Join(cache, "postgresql-"+info.ModTime().UTC().Format("20060102150405"))
	lock, err := Lock(template + ".lock")
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if _, err := os.Stat(template); err == nil {
		return template, nil
	}
	return template, replace(template, func(half string) error {
		credential, caps, err := dropPrivileges()
		if err != nil {
			return err
		}
		if err := makePrivate(half, credential); err != nil {
			return err
		}
		// trust: only the same user can enter the socket's folder.
		cmd := exec.Command(initdb, "-D", half, "-U", postgresUserName, "-A", "trust", "-E", "UTF8", "--locale=C",
			"--no-sync")
		cmd.Env, cmd.Dir = []string{"LC_ALL=C", "PATH=" + systemPath, "TZ=UTC"}, "/"
		cmd.SysProcAttr = attributes(Program{Credential: credential, Caps: caps})
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("running initdb: %w\n%s", err, out)
		}
		return nil
	})
}

// replace first makes a folder under another name, so that it is there completely or not at all.
func replace(dir string, fill func(half string) error) error {
	half := dir + ".new"
	if err := os.RemoveAll(half); err != nil {
		return fmt.Errorf("removing an unfinished PostgreSQL cluster: %w", err)
	}
	if err := fill(half); err != nil {
		return fmt.Errorf("making a PostgreSQL cluster: %w", err)
	}
	syscall.Sync() // neither initdb nor the copy does
	if err := os.Rename(half, dir); err != nil {
		return fmt.Errorf("putting the PostgreSQL cluster in place: %w", err)
	}
	return nil
}

// capDACReadSearch is CAP_DAC_READ_SEARCH: reading and entering all folders.
const capDACReadSearch = 2

// dropPrivileges returns the user that PostgreSQL runs as if this process is root, because PostgreSQL refuses to run
// as root. It is the user of Debian's package for its own clusters, with the right to enter root's folders.
func dropPrivileges() (*syscall.Credential, []uintptr, error) {
	if os.Getuid() != 0 {
		return nil, nil, nil
	}
	u, err := user.Lookup("postgres")
	if err != nil {
		return nil, nil, fmt.Errorf("PostgreSQL refuses to run as root, and there is no user postgres to run it as: %w",
			err)
	}
	var c syscall.Credential
	if _, err := fmt.Sscan(u.Uid+" "+u.Gid, &c.Uid, &c.Gid); err != nil {
		return nil, nil, fmt.Errorf("reading the ids of the user postgres: %w", err)
	}
	return &c, []uintptr{capDACReadSearch}, nil
}

// giveTo makes a user the owner of everything in dir. Without a user it does nothing. A server
// whose supervisor was killed may still be ending, and remove files meanwhile.
func giveTo(c *syscall.Credential, dir string) error {
	if c == nil {
		return nil
	}
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err == nil {
			err = os.Lchown(path, int(c.Uid), int(c.Gid))
		}
		if path != dir && errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}); err != nil {
		return fmt.Errorf("giving %s to PostgreSQL's user: %w", dir, err)
	}
	return nil
}
