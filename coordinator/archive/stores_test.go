package archive_test

import (
	"testing"

	"github.com/codehub/gateway/coordinator/archive/archivetest"
	"github.com/codehub/gateway/coordinator/devenv"
)

// The stores against which the suite runs, and their limits. caddymodule/docs/s3.md has the same table for people.
func TestVersitygw(t *testing.T) { archivetest.TestStore(t, devenv.S3) }

func TestRclone(t *testing.T) {
	archivetest.TestStore(t, devenv.OtherS3, archivetest.NoListOfUploads, archivetest.NoOtherParts)
}

// TestTheCheckFindsNothingWrongWithTheStoresOfTheTests: both stores pass the check, and the check leaves nothing
// behind.
func TestTheCheckFindsNothingWrongWithTheStoresOfTheTests(t *testing.T) {
	for name, store := range map[string]devenv.ObjectStore{"versitygw": devenv.S3(t), "rclone": devenv.OtherS3(t)} {
		s := open(t, options(store))
		for _, f := range s.Check(t.Context()) {
			t.Errorf("%s: %+v", name, f)
		}
		b := bucket{Store: s, t: t}
		if left := b.list(); len(left) != 0 {
			t.Errorf("%s: left %q", name, left)
		}
		if left := b.uploads(); len(left) != 0 {
			t.Errorf("%s: left %+v", name, left)
		}
	}
}
