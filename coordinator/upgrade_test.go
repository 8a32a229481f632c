package coordinator

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/release"
	"github.com/codehub/gateway/coordinator/store/postgres/postgrestest"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestUpgradeBesideAnOlderProcess: while a process of an older release leads, a process of this release starts beside
// it. This is tried for each older release. According to the schema's requirements (SPEC 12.14), either the older
// process continues to lead, or from then on it only serves requests, even after its restart and while it is the only
// process. Its restart is also the way back from an upgrade. There is no engine, so phases are not observed; waiting
// for an engine is not an error.
func TestUpgradeBesideAnOlderProcess(t *testing.T) {
	for _, past := range release.All {
		t.Run(past.String(), func(t *testing.T) {
			older := past.Build(t)
			bucket := devenv.S3(t)
			o := Options{
				Database: devenv.PostgreSQL(t), Redis: devenv.Redis(t), NodeID: "new",
				Archive: archive.Options{Endpoint: bucket.Endpoint, Region: bucket.Region, Bucket: bucket.Bucket, PathStyle: true,
					AccessKey: bucket.AccessKey, SecretKey: bucket.SecretKey},
				Docker: docker.Options{Host: "unix://" + t.TempDir() + "/no.sock", Installation: "upgrade", Image: "workspace", JobImage: "job"},
			}
			pool, err := pgxpool.New(t.Context(), o.Database)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(pool.Close)
			old := startOld(t, older, o)
			wait.Until(t, "the old process leads", func() bool { return len(old.printed("leads")) == 1 })

			owner := uuid.NewString()
			postgrestest.Exec(t, pool, `INSERT INTO users (id, username) VALUES ($1, 'ann')`, owner)
			client := bucket.Client(t)
			put := func(id workspace.ID) string {
				key := id.ArchiveKey(uuid.NewString())
				for _, k := range []string{key, key + ".meta"} {
					if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &bucket.Bucket, Key: &k, Body: strings.NewReader("kept")}); err != nil {
						t.Fatal(err)
					}
				}
				return key
			}
			var ids []workspace.ID
			for _, phase := range []workspace.Phase{workspace.PhaseArchived, workspace.PhaseStandby, workspace.PhaseRunning} {
				id := workspace.ID(uuid.NewString())
				ids = append(ids, id)
				postgrestest.Exec(t, pool, `INSERT INTO workspaces (id, owner_user_id, name, instance_backend, storage_backend, home_store_key,
					phase, desired_state, archive_key) VALUES ($1, $2, $3, 'docker', 'docker', $4, $3, $3, $5)`,
					string(id), owner, string(phase), id.VolumeName(), put(id))
			}

			first := startNew(t, o, "new")
			leads := mayLead(t, pool, past)
			if leads {
				// It continues to lead beside the new one, and follows after its restart.
				old.kill(t)
				awaitLeader(t, pool, "new")
				old = startOld(t, older, o)
			} else {
				wait.Until(t, "the old process follows", func() bool { return len(old.printed("follows")) == 1 })
				awaitLeader(t, pool, "new")
			}
			// Data that this release keeps and writes, unknown to the old one.
			for _, id := range ids {
				put(id)
			}
			postgrestest.Exec(t, pool, `UPDATE workspaces SET home_ctx = home_ctx || '{"newer": {"a": 1}}'`)
			objects := func() string {
				out, err := client.ListObjectsV2(t.Context(), &s3.ListObjectsV2Input{Bucket: &bucket.Bucket})
				if err != nil {
					t.Fatal(err)
				}
				var keys []string
				for _, o := range out.Contents {
					if key := aws.ToString(o.Key); strings.Contains(key, "/home.tar.zst") {
						keys = append(keys, key)
					}
				}
				slices.Sort(keys)
				return strings.Join(keys, "\n")
			}
			locks := func() string {
				return postgrestest.Value[string](t, pool, `SELECT jsonb_agg(l ORDER BY lock_name)::text FROM system_locks l`)
			}
			rows := func() string { // except for what a request changes
				return postgrestest.Value[string](t, pool, `SELECT jsonb_agg(jsonb_build_object('id', id, 'phase', phase, 'operation', operation,
					'home', home_ctx, 'archive', archive_key, 'error', error_reason, 'conditions', conditions) ORDER BY id)::text FROM workspaces`)
			}
			kept := objects()
			if n := strings.Count(kept, ".meta"); n != 2*len(ids) {
				t.Errorf("%d archives are in the bucket:\n%s", n, kept)
			}

			first.kill(t)
			// The server ends a statement that the process has already sent.
			wait.Until(t, "the server has ended the sessions of the killed process", func() bool {
				return postgrestest.Value[int](t, pool, `SELECT count(*)::int FROM pg_stat_activity
					WHERE datname = current_database() AND application_name LIKE '%new'`) == 0
			})
			epochs, before := locks(), rows()
			asked := 0
			serves := func(p *process, state workspace.DesiredState) {
				t.Helper()
				if leads {
					wait.Until(t, "the old process leads again", func() bool { return len(p.printed("leads")) == 1 })
				} else {
					// An outage is logged once.
					wait.Until(t, "the old process is refused", func() bool {
						return slices.ContainsFunc(p.printed(""), func(l string) bool { return strings.Contains(l, "too old to lead") })
					})
				}
				asked++
				answer := fmt.Sprint(asked, " ")
				fmt.Fprintln(p.stdin, asked, owner, "desire", ids[0], state)
				wait.Until(t, "the old process answers", func() bool { return len(p.printed(answer)) == 1 })
				if got := p.printed(answer)[0]; got != answer+"<nil> " {
					t.Error(got)
				}
			}
			serves(old, workspace.DesiredRunning)
			old.kill(t)
			restarted := startOld(t, older, o)
			serves(restarted, workspace.DesiredStandby)
			if now := locks(); !leads && now != epochs {
				t.Errorf("the old process alone has changed the epochs %s to %s", epochs, now)
			}
			if n := len(old.printed("leads")); n != 1 {
				t.Errorf("the old process has led %d times", n)
			}
			if n := len(restarted.printed("leads")); !leads && n != 0 {
				t.Errorf("the old process has led %d times after its restart", n)
			}
			if now := rows(); now != before {
				t.Errorf("the old process alone has changed the workspaces %s to %s", before, now)
			}

			startNew(t, o, "newer")
			if leads {
				restarted.kill(t)
			}
			awaitLeader(t, pool, "newer")
			if now := objects(); now != kept {
				t.Errorf("the archives\n%s\nhave become\n%s", kept, now)
			}
			if n := postgrestest.Value[int](t, pool, `SELECT count(*)::int FROM workspaces
				WHERE home_ctx -> 'newer' = '{"a": 1}' AND phase <> 'ERROR' AND error_reason IS NULL AND archive_key IS NOT NULL`); n != len(ids) {
				t.Errorf("%d of %d workspaces are in no error and have what this release has written: %s", n, len(ids),
					postgrestest.Value[string](t, pool, `SELECT jsonb_agg(w)::text FROM workspaces w`))
			}
		})
	}
}

// mayLead reports whether the up-to-date schema lets a release lead. It must let the last release lead: a change that
// would prevent that waits for the release after this one (CONTRIBUTING).
func mayLead(t testing.TB, pool *pgxpool.Pool, past release.Past) bool {
	t.Helper()
	lead := postgrestest.Value[int](t, pool, `SELECT lead FROM schema_requirements`)
	if past == release.Last() && past.Schema < lead {
		t.Fatalf("the schema asks for version %d to lead, and release %s, which is the last one, knows version %d: "+
			"expand first, and contract a release later", lead, past, past.Schema)
	}
	return past.Schema >= lead
}

// awaitLeader returns when the last term belongs to that process.
func awaitLeader(t testing.TB, pool *pgxpool.Pool, node string) {
	t.Helper()
	wait.Until(t, node+" leads", func() bool {
		return postgrestest.Value[bool](t, pool, `SELECT EXISTS (SELECT FROM system_locks WHERE holder_id = $1)`, node)
	})
}

// startNew starts a process of this release; the argument node names it and its database sessions.
func startNew(t testing.TB, o Options, node string) *process {
	t.Helper()
	o.NodeID = node
	o.Database += "&application_name=" + node
	options, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	return startProcess(t, node, coordinatorEnv+"="+string(options))
}

// startOld starts a process of an older release, which collects archives one second after they have become orphans.
func startOld(t testing.TB, older release.Release, o Options) *process {
	t.Helper()
	c := release.Config{
		Node: "old", Database: o.Database, Redis: o.Redis, Archive: o.Archive, Docker: o.Docker, GCDelay: time.Second, GCInterval: time.Second,
		Keep: 1,
	}
	return startCommand(t, "old", exec.Command(older.Process()), c.Variable(t))
}
