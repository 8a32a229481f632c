package postgres

import (
	"errors"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
)

// The error is about the pooler, which refuses or drops the setting, and not about an older release.
func TestAPoolerThatLosesTheSettingIsNamed(t *testing.T) {
	dsn := devenv.PostgreSQL(t)
	for fault, says := range map[faulty.Fault]string{faulty.RefusesSetting: "refuses", faulty.DropsSetting: "dropped"} {
		t.Run(string(fault), func(t *testing.T) {
			db, err := Open(faulty.Pooler(t, dsn, schemaSetting, fault), Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(db.Close)
			_, releaseErr := db.Release(t.Context())
			for name, err := range map[string]error{"pinging": db.Ping(t.Context()), "migrating": db.Migrate(t.Context()), "asking for the release": releaseErr} {
				var pooler *PoolerError
				if !errors.As(err, &pooler) || (fault == faulty.RefusesSetting) != (pooler.Refused != nil) {
					t.Errorf("%s: %v", name, err)
					continue
				}
				for _, part := range []string{says, schemaSetting, "name PostgreSQL itself in database (DATABASE_URL)"} {
					if !strings.Contains(err.Error(), part) {
						t.Errorf("%s: %q without %q", name, err, part)
					}
				}
			}
		})
	}
	direct := empty(t)
	if err := direct.Ping(t.Context()); err != nil {
		t.Errorf("without a pooler: %v", err)
	}
}

// A pooler that shares sessions gives this process the session of another release.
func TestASessionOfAnotherReleaseIsNamed(t *testing.T) {
	db := open(t)
	cfg := db.conn.Copy()
	cfg.RuntimeParams[schemaSetting] = "4"
	other := &DB{pool: db.pool, conn: cfg}
	var pooler *PoolerError
	if err := other.Migrate(t.Context()); !errors.As(err, &pooler) || pooler.Says != "4" || !strings.Contains(err.Error(), "session of another one") {
		t.Errorf("migrating: %v", err)
	}
}

// Refusals by the database itself are not attributed to a pooler.
func TestAnErrorOfTheDatabaseIsNotAPoolers(t *testing.T) {
	db, err := Open(devenv.PostgreSQL(t)+"&dbname=nowhere", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	var pooler *PoolerError
	if err := db.Ping(t.Context()); err == nil || errors.As(err, &pooler) {
		t.Errorf("pinging a database that does not exist: %v", err)
	}
}
