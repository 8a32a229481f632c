package processtest

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/redis/go-redis/v9"

	"github.com/codehub/gateway/coordinator/dataplane/activity"
	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// A step is a part of a workspace's life. The first process is killed or stopped in one of the steps. Every step must
// be completed nevertheless.
type step struct {
	name string
	do   func(t testing.TB, h *home)
}

// scenario is a course of steps in which points are reached.
type scenario struct {
	name  string
	steps []step
	// prepare makes the workspace, before the processes start.
	prepare func(t testing.TB, in *installation) *home
	config  processConfig // of which the delays, the marks and the keys are taken
	// waitsForAll says that the steps do not end while any process is stopped, because no workspace is put to sleep
	// before every process has written its activity (SPEC 12.10). So a stopped process is continued as soon as another
	// one has taken over.
	waitsForAll bool
	// needsDisk says that the backend must know how full the homes' disk is. A cluster without a quota does not.
	needsDisk bool
	// needsDocker says that the scenario freezes a container or keeps a network without a container. A cluster can do
	// neither.
	needsDocker bool
}

// The order matters: a point belongs to the first scenario that reaches it.
var scenarios = []scenario{
	{name: "life", steps: life, prepare: running},
	{name: "end", steps: end, prepare: func(t testing.TB, in *installation) *home {
		in.dropBucket(t)
		return archivedOnce(t, in) // never runs: its archive is made empty
	}, config: processConfig{GCDelay: time.Second, GCInterval: 500 * time.Millisecond}},
	{name: "unused", steps: unused, prepare: running, waitsForAll: true,
		config: processConfig{Standby: 2 * time.Second, ArchiveAfter: 500 * time.Millisecond}},
	{name: "lost", steps: lost, prepare: running},
	{name: "empty", steps: empty, prepare: running},
	{name: "conflict", steps: conflict, prepare: archivedOnce},
	{name: "damaged", steps: damaged, prepare: running},
	{name: "given up", steps: givenUp, prepare: archivedOnce},
	{name: "reverted", steps: reverted, prepare: asleepOnce},
	{name: "unchanged", steps: unchanged, prepare: running},
	{name: "encrypted", steps: encrypted, prepare: archivedOnce, config: processConfig{Keys: newKeys()}},
	{name: "read back", steps: readBack, prepare: archivedOnce, config: processConfig{Scrub: true}},
	{name: "pressed", steps: pressed, prepare: running, config: processConfig{Pressure: 0.001}, needsDisk: true},
	{name: "dozed", steps: dozed, prepare: keptAwake, waitsForAll: true, config: processConfig{Doze: 2 * time.Second}, needsDocker: true},
	{name: "warm", steps: warm, prepare: running, config: processConfig{Warm: 1}, needsDocker: true},
}

// configure sets the scenario's delays and what else it needs.
func (sc scenario) configure(c *processConfig) {
	c.GCDelay, c.GCInterval, c.Standby, c.ArchiveAfter = sc.config.GCDelay, sc.config.GCInterval, sc.config.Standby, sc.config.ArchiveAfter
	c.Pressure, c.Scrub, c.Keys = sc.config.Pressure, sc.config.Scrub, sc.config.Keys
	c.Doze, c.Warm = sc.config.Doze, sc.config.Warm
}

// possible are the scenarios that this run's backend can play.
func possible() []scenario {
	return slices.DeleteFunc(slices.Clone(scenarios), func(sc scenario) bool {
		return (sc.needsDisk || sc.needsDocker) && devenv.OnKubernetes()
	})
}

// running makes a workspace whose desired state is running.
func running(t testing.TB, in *installation) *home { return in.create(t) }

// asleepOnce makes a workspace whose desired state is STANDBY and whose home is empty.
func asleepOnce(t testing.TB, in *installation) *home {
	h := in.create(t)
	h.want(t, workspace.DesiredStandby)
	return h
}

// archivedOnce makes a workspace that is to have an empty archive.
func archivedOnce(t testing.TB, in *installation) *home {
	h := in.create(t)
	h.want(t, workspace.DesiredArchived)
	return h
}

// Steps of several scenarios.
var (
	createdStep  = step{"created and running", func(t testing.TB, h *home) { h.await(t, workspace.PhaseRunning); h.write(t, "one") }}
	asleepStep   = step{"asleep", func(t testing.TB, h *home) { h.want(t, workspace.DesiredStandby); h.await(t, workspace.PhaseStandby) }}
	archivedStep = step{"archived", func(t testing.TB, h *home) { h.want(t, workspace.DesiredArchived); h.await(t, workspace.PhaseArchived) }}
	awakeStep    = step{"awake", func(t testing.TB, h *home) { h.run(t); h.check(t) }}
)

// life leads a workspace through every operation, and through deletion and back.
var life = []step{
	createdStep,
	asleepStep,
	{"awake", func(t testing.TB, h *home) { h.run(t); h.check(t); h.write(t, "two") }},
	{"restarted", func(t testing.TB, h *home) {
		before := h.container(t)
		if err := h.engine.Kill(t.Context(), before); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "the container is replaced", func() bool { return h.container(t).ID != before.ID })
		h.await(t, workspace.PhaseRunning)
		h.check(t)
	}},
	archivedStep,
	{"restored", func(t testing.TB, h *home) { h.run(t); h.check(t); h.write(t, "three") }},
	{"deleted", func(t testing.TB, h *home) {
		h.delete(t, false)
		wait.Until(t, "nothing but the archive is left", func() bool { return h.row(t).AwaitsGC })
	}},
	{"undeleted", func(t testing.TB, h *home) {
		wait.For(t, "the deletion is undone", func() error { _, err := h.service.Undelete(t.Context(), h.owner, h.id); return err })
		h.await(t, workspace.PhaseArchived)
	}},
	awakeStep,
}

// end deletes a workspace permanently: its archives are collected. The bucket did not exist before.
var end = []step{
	{"archived at once", func(t testing.TB, h *home) {
		h.await(t, workspace.PhaseArchived)
		h.beginUpload(t)
	}},
	{"collected", func(t testing.TB, h *home) {
		h.delete(t, false)
		h.await(t, workspace.PhaseDeleted)
		if left := h.objects(t); len(left) != 0 {
			t.Errorf("the workspace is DELETED and the store still has %v", left)
		}
	}},
	{"uploads aborted", func(t testing.TB, h *home) {
		wait.Until(t, "no unfinished upload is left", func() bool { return h.uploads(t) == 0 })
	}},
}

// unused leaves a workspace alone: the TTL runner puts it to sleep, and then archives it.
var unused = []step{
	{"used", func(t testing.TB, h *home) {
		// On a busy machine, the workspace may start and sleep again between two looks at its row.
		wait.Until(t, "the workspace has been started", func() bool { return h.row(t).Phase != workspace.PhasePending })
		h.use(t)
	}},
	{"archived by itself", func(t testing.TB, h *home) { h.await(t, workspace.PhaseArchived) }},
}

// lost takes the volume away, and recovers an archive.
var lost = []step{
	createdStep,
	archivedStep,
	{"restored", func(t testing.TB, h *home) { h.want(t, workspace.DesiredStandby); h.await(t, workspace.PhaseStandby) }},
	{"used", awakeStep.do},
	asleepStep,
	{"lost", func(t testing.TB, h *home) { h.loseVolume(t); h.awaitError(t, workspace.ReasonDataLost) }},
	{"recovered from the archive", func(t testing.TB, h *home) {
		h.recover(t, service.Choice{Kind: workspace.RecoverArchive, Key: h.row(t).ArchiveKey})
		h.run(t)
		h.check(t)
	}},
}

// empty takes the volume away, and starts again without files.
var empty = []step{
	createdStep,
	asleepStep,
	{"lost", func(t testing.TB, h *home) { h.loseVolume(t); h.awaitError(t, workspace.ReasonDataLost) }},
	{"recovered empty", func(t testing.TB, h *home) {
		h.recover(t, service.Choice{Kind: workspace.RecoverEmpty})
		clear(h.content)
		h.await(t, workspace.PhaseStandby) // whether it is to run by then would be chance
		h.run(t)
	}},
}

// conflict makes a volume appear that the row does not know, and chooses to keep it. Then it makes another one appear,
// and chooses the archive instead.
var conflict = []step{
	{"archived at once", func(t testing.TB, h *home) { h.await(t, workspace.PhaseArchived) }},
	{"another volume", func(t testing.TB, h *home) {
		h.foreignVolume(t, "newer")
		h.want(t, workspace.DesiredStandby)
		h.awaitError(t, workspace.ReasonConflict)
	}},
	{"kept", func(t testing.TB, h *home) {
		h.recover(t, service.Choice{Kind: workspace.RecoverVolume})
		h.await(t, workspace.PhaseStandby)
	}},
	{"used", func(t testing.TB, h *home) { h.run(t); h.write(t, "kept") }},
	archivedStep,
	{"yet another volume", func(t testing.TB, h *home) {
		h.foreignVolume(t, "strange")
		h.want(t, workspace.DesiredStandby)
		h.awaitError(t, workspace.ReasonConflict)
	}},
	{"replaced", func(t testing.TB, h *home) {
		h.recover(t, service.Choice{Kind: workspace.RecoverArchive, Key: h.row(t).ArchiveKey, ReplaceVolume: true})
		h.run(t)
		h.check(t)
	}},
}

// damaged corrupts the archive, so that the restore fails, and then repairs it. The remains of the restore are removed
// when the workspace is not wanted any more.
var damaged = []step{
	createdStep,
	archivedStep,
	{"spoiled", func(t testing.TB, h *home) {
		h.spoilArchive(t)
		h.want(t, workspace.DesiredRunning)
		h.awaitError(t, workspace.ReasonArchiveCorrupted)
	}},
	{"left alone", func(t testing.TB, h *home) {
		h.repairArchive(t)
		h.want(t, workspace.DesiredArchived)
		h.recover(t, service.Choice{Kind: workspace.RecoverArchive, Key: h.row(t).ArchiveKey, ReplaceVolume: true})
		h.await(t, workspace.PhaseArchived)
		wait.Until(t, "the half-restored volume is gone", func() bool { return !h.hasVolume(t) })
	}},
	awakeStep,
}

// givenUp deletes a workspace in ERROR whose volume is in no archive. Then it gives up the volume, which the deletion
// would keep.
var givenUp = []step{
	{"archived at once", func(t testing.TB, h *home) { h.await(t, workspace.PhaseArchived) }},
	{"another volume", func(t testing.TB, h *home) {
		h.foreignVolume(t, "newer")
		h.want(t, workspace.DesiredStandby)
		h.awaitError(t, workspace.ReasonConflict)
	}},
	{"deleted", func(t testing.TB, h *home) {
		h.delete(t, false)
		wait.Until(t, "the volume is kept", func() bool { w := h.row(t); return w.Waiting != nil && w.Waiting.Reason == "KeptUntilDeleted" })
	}},
	{"given up", func(t testing.TB, h *home) {
		h.delete(t, true)
		wait.Until(t, "nothing but the archive is left", func() bool { return h.row(t).AwaitsGC })
		if h.hasVolume(t) {
			t.Error("the volume that was given up exists")
		}
	}},
}

// delete deletes the workspace as soon as no operation is in progress.
func (h *home) delete(t testing.TB, now bool) {
	t.Helper()
	a := h.owner
	if now {
		a = administrator
	}
	wait.For(t, "the workspace is deleted", func() error { return h.service.Delete(t.Context(), a, h.id, now) })
}

var administrator = service.Actor{Admin: true, Through: "test"}

// recover recovers the workspace with a choice.
func (h *home) recover(t testing.TB, c service.Choice) {
	t.Helper()
	wait.For(t, "the workspace is recovered", func() error {
		_, err := h.service.Recover(t.Context(), administrator, h.id, c)
		if err != nil && !errors.Is(err, service.ErrInventoryUnknown) { // archives are being collected
			t.Fatal(err)
		}
		return err
	})
}

// awaitError returns when the workspace is in ERROR for that reason.
func (h *home) awaitError(t testing.TB, reason workspace.ErrorReason) {
	t.Helper()
	h.await(t, workspace.PhaseError)
	if w := h.row(t); w.ErrorReason != reason || w.ErrorMessage == "" {
		t.Fatalf("the error is %s: %s", w.ErrorReason, w.ErrorMessage)
	}
}

// container returns the workspace's container; the zero one if there is none.
func (h *home) container(t testing.TB) inspect.Container {
	t.Helper()
	c, err := inspect.Find(t.Context(), h.engine, string(h.id))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// use records activity, as a gateway does.
func (h *home) use(t testing.TB) {
	t.Helper()
	options, err := redis.ParseURL(h.config.Redis)
	if err != nil {
		t.Fatal(err)
	}
	client := redis.NewClient(options)
	defer client.Close()
	now := float64(time.Now().UnixMilli()) / 1000
	if err := client.ZAdd(t.Context(), activity.DefaultKey, redis.Z{Score: now, Member: string(h.id)}).Err(); err != nil {
		t.Fatal(err)
	}
}

// loseVolume removes the volume behind the product's back.
func (h *home) loseVolume(t testing.TB) {
	t.Helper()
	wait.For(t, "the volume is removed", func() error { return h.engine.RemoveVolume(t.Context(), string(h.id)) })
	wait.Until(t, "the volume is gone", func() bool { return !h.hasVolume(t) })
}

// hasVolume reports whether the home volume exists.
func (h *home) hasVolume(t testing.TB) bool {
	t.Helper()
	_, exists, err := h.engine.Volume(t.Context(), string(h.id))
	if err != nil {
		t.Fatal(err)
	}
	return exists
}

// foreignVolume makes a home volume that is labelled with an operation that the row does not know.
func (h *home) foreignVolume(t testing.TB, op string) {
	t.Helper()
	wait.Until(t, "the own volume is gone", func() bool { return !h.hasVolume(t) })
	if err := h.engine.MakeVolume(t.Context(), string(h.id), op); err != nil {
		t.Fatal(err)
	}
}

// dropBucket removes the bucket, which the product then creates.
func (in *installation) dropBucket(t testing.TB) {
	t.Helper()
	if _, err := in.s3.DeleteBucket(t.Context(), &s3.DeleteBucketInput{Bucket: &in.bucket.Bucket}); err != nil {
		t.Fatal(err)
	}
}

// beginUpload leaves an unfinished upload of an archive.
func (h *home) beginUpload(t testing.TB) {
	t.Helper()
	key := h.archiveObject(h.id.ArchiveKey("00000000-0000-4000-8000-000000000000"))
	if _, err := h.s3.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: &h.bucket.Bucket, Key: &key}); err != nil {
		t.Fatal(err)
	}
}

// uploads returns how many uploads of the workspace's archives are unfinished. If a process was killed during its check
// of the store, that check's unfinished uploads stay longer. They do not count.
func (h *home) uploads(t testing.TB) int {
	t.Helper()
	of := h.archiveObject(string(h.id))
	out, err := h.s3.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: &h.bucket.Bucket, Prefix: &of})
	if err != nil {
		t.Fatal(err)
	}
	return len(out.Uploads)
}

// archiveObject is the name in the bucket of the archive with that key.
func (h *home) archiveObject(key string) string { return "archives/" + key }

// spoilArchive overwrites the first bytes of the current archive; repairArchive repairs it.
func (h *home) spoilArchive(t testing.TB)  { h.flipArchive(t) }
func (h *home) repairArchive(t testing.TB) { h.flipArchive(t) }

func (h *home) flipArchive(t testing.TB) {
	t.Helper()
	ctx, key := t.Context(), h.archiveObject(h.row(t).ArchiveKey)
	data, metadata := h.object(ctx, t, key)
	for i := range min(len(data), 64) {
		data[i] ^= 0x55
	}
	h.putObject(ctx, t, key, data, metadata)
}
