package e2e

import (
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestKillDuringStorageJob: the program is killed while a storage job runs. After the program's restart the operation
// completes and no file is lost, whether the job continues in the meantime or is killed too (SPEC 1, contract 7).
func TestKillDuringStorageJob(t *testing.T) {
	t.Parallel()
	store := devenv.S3(t)
	proxy := faulty.NewStore(t, store.Endpoint)
	in := install(t, "S3_ENDPOINT="+proxy.URL(), "S3_REGION="+store.Region, "S3_BUCKET="+store.Bucket,
		"S3_ACCESS_KEY="+store.AccessKey, "S3_SECRET_KEY="+store.SecretKey)
	in.s3, in.bucket = store.Client(t), store.Bucket
	me := in.admin(t)
	w := me.create(t, "killed")
	base := me.enter(t, w.ID)
	// Incompressible, and large enough that a job takes a while.
	sum := me.run(t, base, "dd if=/dev/urandom of=big bs=1M count=100 2>/dev/null; sync; sha256sum big")
	if len(sum) < 64 {
		t.Fatalf("the checksum is %q", sum)
	}

	for _, tt := range []struct {
		name    string
		killJob bool
	}{
		{"the job goes on", false},
		{"the job is killed too", true},
	} {
		killDuring := func(kind, state string) {
			// While the proxy holds the store's answers back, neither job can end, because both read the archive, one
			// of them to verify it.
			proxy.Hold(10 << 20)
			defer proxy.Release()
			awaitStart := in.awaitJob(t, w.ID, kind)
			me.setDesiredState(t, w.ID, state)
			awaitStart()
			in.kill()
			jobs := in.runningJobs(t, w.ID)
			if len(jobs) != 1 {
				t.Fatalf("%s: %d %s jobs ran when the program was killed, want 1", tt.name, len(jobs), kind)
			}
			if tt.killJob {
				in.killJob(t, jobs[0])
			}
			proxy.Release()
			in.start(t)
		}
		// A job does not read a home that has not changed since its last archive, and would end immediately.
		me.run(t, base, "echo "+tt.name+" > round; sync")
		killDuring("archive", "ARCHIVED")
		w = me.awaitPhase(t, w.ID, "ARCHIVED")
		if in.hasVolume(t, w.ID) || len(in.objects(t, w.ID)) < 2 {
			t.Fatalf("%s: archived with volume %v and objects %v", tt.name, in.hasVolume(t, w.ID), in.objects(t, w.ID))
		}

		killDuring("restore", "RUNNING")
		me.awaitPhase(t, w.ID, "RUNNING")
		wait.For(t, "the workspace answers", func() error { return me.showsTerminal(t, base) })
		if got := me.run(t, base, "sha256sum big"); got != sum {
			t.Fatalf("%s: the file's checksum is %q, it was %q", tt.name, got, sum)
		}
	}
}
