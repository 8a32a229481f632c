package commandtest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// Installation is a database with one user, a bucket, a container engine, and a Caddyfile that names them. There is
// no leader, and no Redis unless CLI_TEST_REDIS names one.
type Installation struct {
	t         *testing.T
	caddyfile string
	db        *pgx.Conn
	objects   devenv.ObjectStore
	backend   backend.Backend
}

// NewInstallation creates an installation that ends with the test.
func NewInstallation(t *testing.T) *Installation {
	t.Helper()
	in := &Installation{t: t, objects: devenv.S3(t), caddyfile: filepath.Join(t.TempDir(), "Caddyfile")}
	engine, dsn, name := devenv.Docker(t), devenv.PostgreSQL(t), devenv.Installation("cli")
	Run(t, nil, "migrate", "--database", dsn).Want(t, 0)
	var err error
	if in.db, err = pgx.Connect(t.Context(), dsn); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.db.Close(context.Background()) })
	in.Exec("INSERT INTO users (username) VALUES ('ann')")
	if in.backend, err = docker.New(docker.Options{Host: engine, Installation: name, Image: "none"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.backend.Close() })
	text := fmt.Sprintf(`{
	codehub {
		database {env.CLI_TEST_DATABASE}
		redis {env.CLI_TEST_REDIS}
		installation %s
		docker {
			host %s
		}
		s3 {
			endpoint %s
			bucket %s
			access_key %s
			secret_key %s
		}
	}
}
`, name, engine, in.objects.Endpoint, in.objects.Bucket, in.objects.AccessKey, in.objects.SecretKey)
	t.Setenv("CLI_TEST_DATABASE", dsn)
	t.Setenv("CLI_TEST_REDIS", "redis://127.0.0.1:1")
	if err := os.WriteFile(in.caddyfile, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return in
}

// Exec runs a statement on the database.
func (in *Installation) Exec(sql string, args ...any) {
	in.t.Helper()
	if _, err := in.db.Exec(in.t.Context(), sql, args...); err != nil {
		in.t.Fatal(err)
	}
}

// Value returns the only value of a query as text.
func (in *Installation) Value(sql string, args ...any) (s string) {
	in.t.Helper()
	if err := in.db.QueryRow(in.t.Context(), sql, args...).Scan(&s); err != nil {
		in.t.Fatal(err)
	}
	return s
}

// Workspace adds a workspace of ann, in ERROR if reason is not empty.
func (in *Installation) Workspace(name string, reason workspace.ErrorReason) workspace.ID {
	in.t.Helper()
	phase := "ARCHIVED"
	if reason != "" {
		phase = "ERROR"
	}
	return workspace.ID(in.Value(`INSERT INTO workspaces
		(id, owner_user_id, name, instance_backend, storage_backend, home_store_key,
			phase, desired_state, error_reason, error_message)
		SELECT gen_random_uuid(), id, $1, 'docker', 'docker', 'k',
			$2, 'ARCHIVED', NULLIF($3, ''), NULLIF($3, '') FROM users RETURNING id::text`,
		name, phase, string(reason)))
}

// Archive stores a complete archive of a workspace, and returns its key.
func (in *Installation) Archive(id workspace.ID) string {
	in.t.Helper()
	key := id.ArchiveKey(uuid.NewString())
	const content = "1234"
	for object, text := range map[string]string{
		"archives/" + key: content, "archives/" + key + contract.MetaSuffix: contract.FormatMeta(fmt.Sprintf("%x", sha256.Sum256([]byte(content)))),
	} {
		_, err := in.objects.Client(in.t).PutObject(in.t.Context(), &s3.PutObjectInput{
			Bucket: &in.objects.Bucket, Key: &object, Body: strings.NewReader(text),
		})
		if err != nil {
			in.t.Fatal(err)
		}
	}
	return key
}

// Volume creates the workspace's volume, which exists until the test ends.
func (in *Installation) Volume(id workspace.ID) {
	in.t.Helper()
	if err := in.backend.Provision(in.t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}); err != nil {
		in.t.Fatal(err)
	}
	in.t.Cleanup(func() {
		if err := in.backend.DeleteVolume(context.Background(), id, "op"); err != nil {
			in.t.Error(err)
		}
	})
}

// Run runs a command with answer as its input.
func (in *Installation) Run(answer string, args ...string) Outcome {
	in.t.Helper()
	return Run(in.t, strings.NewReader(answer), append(args, "--config", in.caddyfile)...)
}
