package e2e

import (
	"strings"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
)

// TestKilledInTheMiddle: the program is killed while a storage job runs. Started
// again it goes on where things stand, and no file is lost (SPEC 1, contract 7).
func TestKilledInTheMiddle(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	w := me.create(t, "killed")
	base := addresses[0].base(in, w.ID)
	// Enough that a job is at work for a while, and incompressible.
	sum := me.run(t, base, "dd if=/dev/urandom of=big bs=1M count=100 2>/dev/null; sync; sha256sum big")
	if len(sum) < 64 {
		t.Fatalf("the checksum is %q", sum)
	}

	for _, round := range []string{"the job outlives the program", "the job is killed as well"} {
		killIn := func(kind, state string) {
			started := in.awaitJob(t, w.ID, kind)
			me.wish(t, w.ID, state)
			started()
			in.kill()
			jobs := in.runningJobs(t, w.ID)
			if len(jobs) != 1 {
				t.Fatalf("%s: %d %s jobs were at work when the program was killed, want 1", round, len(jobs), kind)
			}
			if round == "the job is killed as well" {
				in.killJob(t, jobs[0])
			}
			in.start(t)
		}
		killIn("archive", "ARCHIVED")
		w = me.await(t, w.ID, "ARCHIVED")
		if in.hasVolume(t, w.ID) || len(in.objects(t, w.ID)) < 2 {
			t.Fatalf("%s: archived with volume %v and objects %v", round, in.hasVolume(t, w.ID), in.objects(t, w.ID))
		}

		killIn("restore", "RUNNING")
		me.await(t, w.ID, "RUNNING")
		eventually(t, "the workspace answers", func() error { return me.shows(t, base) })
		if got := me.run(t, base, "sha256sum big"); got != sum {
			t.Fatalf("%s: the file's checksum is %q, it was %q", round, got, sum)
		}
	}
}

// runningJobs are the containers of the workspace's storage jobs that are at work.
func (in *installation) runningJobs(t testing.TB, id string) []container.Summary {
	t.Helper()
	list, err := in.docker.ContainerList(t.Context(), container.ListOptions{Filters: filters.NewArgs(
		filters.Arg("label", "codehub.workspace="+id), filters.Arg("label", "codehub.kind=job"))})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// killJob ends a job the hard way.
func (in *installation) killJob(t testing.TB, job container.Summary) {
	t.Helper()
	// It may end by itself in the same moment.
	if err := in.docker.ContainerKill(t.Context(), job.ID, "KILL"); err != nil && !strings.Contains(err.Error(), "not running") {
		t.Fatal(err)
	}
}
