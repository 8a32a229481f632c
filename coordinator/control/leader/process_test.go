package leader_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/control/leader"
	"github.com/codehub/gateway/coordinator/seed"
	"github.com/codehub/gateway/coordinator/store"
	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/testlog"
	"github.com/codehub/gateway/coordinator/wait"
)

// The test binary is also the process that these tests kill and stop. If this variable is set, the binary takes part in
// the election on the database that it names, until its standard input ends.
const processEnv = "CODEHUB_TEST_LEADER"

func TestMain(m *testing.M) {
	if dsn := os.Getenv(processEnv); dsn != "" {
		if err := participate(dsn); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// participate is the process. Its arguments are its node, the number of shards and the lease.
func participate(dsn string) error {
	shards, err := strconv.Atoi(os.Args[2])
	if err != nil {
		return err
	}
	lease, err := time.ParseDuration(os.Args[3])
	if err != nil {
		return err
	}
	db, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		return err
	}
	defer db.Close()
	pool, err := pgxpool.New(context.Background(), dsn)
	if err != nil {
		return err
	}
	defer pool.Close()
	log, err := zap.NewDevelopment()
	if err != nil {
		return err
	}
	e, err := leader.New(leader.Options{
		Conn: db.ConnConfig(), Node: os.Args[1], Shards: shards, LeaseDuration: lease,
		Settings: leader.Settings{RetryInterval: 200 * time.Millisecond},
	}, log)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return e.Run(ctx, func(ctx context.Context, t leader.Term) error { return work(ctx, pool, os.Args[1], t) })
}

// work is a leader's work: it writes rows under the fence, and records when the lease was valid. It continues for a
// moment after the end of the term, or until a write was refused. So the test includes the attempts of a deposed leader
// to write.
func work(ctx context.Context, db *pgxpool.Pool, node string, t leader.Term) error {
	after := context.WithoutCancel(ctx)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := 0; late < 3; <-tick.C {
		if ctx.Err() != nil {
			late++
		}
		asked := time.Now()
		valid := t.Lease()
		answered := time.Now()
		tag, err := db.Exec(after, `INSERT INTO written (shard, epoch, node)
			SELECT $1, $2, $3 FROM system_locks WHERE lock_name = $4 AND epoch = $2 FOR SHARE`,
			t.Shard, t.Fence.Epoch, node, t.Fence.Lock)
		if err != nil {
			return err
		}
		refused := tag.RowsAffected() == 0
		if valid || refused {
			if _, err := db.Exec(after, `INSERT INTO leases (shard, epoch, valid, refused, asked, answered)
				VALUES (@shard, @epoch, @valid, @refused, @asked, @answered)`, pgx.StrictNamedArgs{
				"shard": t.Shard, "epoch": t.Fence.Epoch, "valid": valid, "refused": refused,
				"asked": asked.UnixNano(), "answered": answered.UnixNano(),
			}); err != nil {
				return err
			}
		}
		if refused && ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return ctx.Err()
}

// cluster is a number of processes on one database.
type cluster struct {
	t      *testing.T
	conn   *pgx.Conn
	dsn    string
	shards int
	lease  time.Duration
	random *rand.Rand

	next    int
	running map[string]*proc
}

// proc is one process.
type proc struct {
	node    string
	cmd     *exec.Cmd
	stdin   io.WriteCloser
	stopped bool
	output  sync.WaitGroup
}

func newCluster(t *testing.T, shards int, lease time.Duration) *cluster {
	dsn := storetest.Migrated(t)
	db, err := store.Open(dsn, postgres.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	if _, err := conn.Exec(t.Context(), `
		CREATE TABLE written (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, shard int, epoch bigint, node text);
		CREATE TABLE leases (shard int, epoch bigint, valid bool, refused bool, asked bigint, answered bigint)`); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, conn: conn, dsn: dsn, shards: shards, lease: lease,
		random: seed.Source(seed.New(t)), running: make(map[string]*proc)}
	t.Cleanup(func() {
		for _, p := range c.running {
			c.kill(p)
		}
	})
	return c
}

// start adds a process.
func (c *cluster) start() *proc {
	c.t.Helper()
	c.next++
	p := &proc{node: fmt.Sprintf("node-%d", c.next)}
	p.cmd = exec.Command(os.Args[0], p.node, strconv.Itoa(c.shards), c.lease.String())
	p.cmd.Env = append(os.Environ(), processEnv+"="+c.dsn)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	p.output.Go(func() {
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			fmt.Fprintf(testlog.Writer(c.t), "%s: %s\n", p.node, lines.Text())
		}
	})
	c.running[p.node] = p
	return p
}

func (c *cluster) signal(p *proc, s syscall.Signal) {
	c.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
	p.stopped = s == syscall.SIGSTOP
}

// kill kills a process with SIGKILL.
func (c *cluster) kill(p *proc) {
	c.t.Helper()
	c.signal(p, syscall.SIGKILL)
	delete(c.running, p.node)
	p.output.Wait()
	_ = p.cmd.Wait()
}

// holders returns, for each shard, the present epoch and the process that began it.
func (c *cluster) holders() (holders map[int]string, epochs map[int]int64) {
	c.t.Helper()
	rows, err := c.conn.Query(c.t.Context(), `SELECT CASE WHEN lock_name LIKE '%/%' THEN split_part(lock_name, '/', 2)::int ELSE 0 END,
		holder_id, epoch FROM system_locks WHERE shards = $1`, c.shards)
	if err != nil {
		c.t.Fatal(err)
	}
	holders, epochs = make(map[int]string), make(map[int]int64)
	var shard int
	var holder string
	var epoch int64
	if _, err := pgx.ForEachRow(rows, []any{&shard, &holder, &epoch}, func() error {
		holders[shard], epochs[shard] = holder, epoch
		return nil
	}); err != nil {
		c.t.Fatal(err)
	}
	return holders, epochs
}

// led returns the shards whose present epoch p has begun.
func (c *cluster) led(p *proc) (shards []int) {
	holders, _ := c.holders()
	for shard, holder := range holders {
		if holder == p.node {
			shards = append(shards, shard)
		}
	}
	return shards
}

// taken waits until running processes lead all shards.
func (c *cluster) taken() {
	c.t.Helper()
	wait.Until(c.t, "processes that run lead all shards", func() bool {
		holders, _ := c.holders()
		for _, holder := range holders {
			if p := c.running[holder]; p == nil || p.stopped {
				return false
			}
		}
		return len(holders) == c.shards
	})
}

// more waits until n more rows were written: the test's clock.
func (c *cluster) more(n int64) {
	c.t.Helper()
	var before int64
	rows := func() (rows int64) {
		if err := c.conn.QueryRow(c.t.Context(), "SELECT coalesce(max(id), 0) FROM written").Scan(&rows); err != nil {
			c.t.Fatal(err)
		}
		return rows
	}
	before = rows()
	wait.Until(c.t, "more rows are written", func() bool { return rows() >= before+n })
}

// any returns a random process that runs and leads.
func (c *cluster) any() *proc {
	var all []string
	for node, p := range c.running {
		if !p.stopped && len(c.led(p)) > 0 {
			all = append(all, node)
		}
	}
	slices.Sort(all)
	if len(all) == 0 {
		return nil
	}
	return c.running[all[c.random.IntN(len(all))]]
}

// verify checks everything that was written.
func (c *cluster) verify() {
	c.t.Helper()
	count := func(what, sql string) (n int64) {
		c.t.Helper()
		if err := c.conn.QueryRow(c.t.Context(), sql).Scan(&n); err != nil {
			c.t.Fatalf("%s: %v", what, err)
		}
		return n
	}
	if n := count("order", `SELECT count(*) FROM (SELECT epoch, lag(epoch) OVER (PARTITION BY shard ORDER BY id) AS before FROM written) w
		WHERE epoch < before`); n > 0 {
		c.t.Errorf("%d rows were written under an epoch after a later one had begun to write", n)
	}
	if n := count("nodes", `SELECT count(*) FROM (SELECT FROM written GROUP BY shard, epoch HAVING count(DISTINCT node) > 1) w`); n > 0 {
		c.t.Errorf("%d epochs have rows of two processes", n)
	}
	// This counts leases that were still valid after a later lease of the same shard had become valid.
	if n := count("leases", `WITH ends AS (SELECT shard, epoch, max(asked) AS last, min(answered) AS first FROM leases WHERE valid GROUP BY shard, epoch)
		SELECT count(*) FROM ends a JOIN ends b USING (shard) WHERE a.epoch < b.epoch AND a.last > b.first`); n > 0 {
		c.t.Errorf("%d pairs of terms of one shard overlap", n)
	}
	c.t.Logf("%d rows in %d terms; %d writes of deposed leaders were refused",
		count("rows", `SELECT count(*) FROM written`), count("terms", `SELECT count(DISTINCT (shard, epoch)) FROM written`),
		count("refused", `SELECT count(*) FROM leases WHERE refused`))
}

// Processes are killed and stopped at random. At any time each shard has at most one leader, and after each loss it
// soon has a leader again.
func TestNoTwoLeadOneShardUnderRandomKillsAndStops(t *testing.T) {
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, shards, 600*time.Millisecond)
			for range 3 {
				c.start()
			}
			c.taken()
			steps := 15
			if testing.Short() {
				steps = 6
			}
			var kills []time.Duration
			for step := range steps {
				p := c.any()
				switch {
				case p == nil: // between two terms
					c.taken()
				case step%3 == 0:
					began := time.Now()
					c.kill(p)
					c.taken()
					kills = append(kills, time.Since(began))
					c.start()
				case step%3 == 1: // it continues before or while it is replaced
					c.signal(p, syscall.SIGSTOP)
					c.more(c.random.Int64N(100))
					c.signal(p, syscall.SIGCONT)
				default: // it continues after it was replaced
					c.signal(p, syscall.SIGSTOP)
					c.taken()
					c.more(1 + c.random.Int64N(50))
					c.signal(p, syscall.SIGCONT)
				}
				c.more(c.random.Int64N(60))
			}
			c.taken()
			c.verify()
			slices.Sort(kills)
			t.Logf("the shards of killed processes were taken after %v", kills)
			if m := kills[len(kills)/2]; m > time.Second {
				t.Errorf("the shards of a killed process are taken after %s", m)
			}
		})
	}
}

// PostgreSQL ends a silent session after one and a half leases, which is 4.5 s by default.
func TestALeaderThatIsStoppedIsReplacedInSeconds(t *testing.T) {
	for _, shards := range []int{1, 8} {
		t.Run(fmt.Sprintf("%d shards", shards), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, shards, leader.DefaultLeaseDuration)
			for range 2 {
				c.start()
			}
			wait.Quick(t, "replacing a stopped leader", 6*time.Second, func() time.Duration { // 5 s, and a margin
				var p *proc
				wait.Until(t, "one process leads and the other one waits, or each has its share", func() bool {
					var sessions int
					if err := c.conn.QueryRow(t.Context(), `SELECT count(DISTINCT pid) FROM pg_locks WHERE locktype = 'advisory'
						AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`).Scan(&sessions); err != nil {
						t.Fatal(err)
					}
					p = c.any()
					return sessions == 2 && p != nil && len(c.led(p)) == (shards+1)/2
				})
				began := time.Now()
				c.signal(p, syscall.SIGSTOP)
				c.taken()
				took := time.Since(began)
				c.signal(p, syscall.SIGCONT)
				t.Logf("a stopped leader was replaced after %s", took)
				return took
			})
			c.more(int64(10 * shards))
			c.verify()
		})
	}
}
