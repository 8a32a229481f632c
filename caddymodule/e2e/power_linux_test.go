package e2e

import (
	"testing"

	"github.com/codehub/gateway/coordinator/wait"
)

// TestPowerCutAfterAWriteInPlace: a database in a restored home writes to its file in place and syncs the file to the
// disk with fdatasync. Then the power is cut. The file still has its former change time. The next archive nevertheless
// has the new content (SPEC 12.15).
func TestPowerCutAfterAWriteInPlace(t *testing.T) {
	t.Parallel()
	h := newPoweredHost(t)
	me := h.admin(t)
	w := me.create(t, "a database")
	base := me.enter(t, w.ID)
	const read = "sha256sum table | head -c 64"
	old := me.run(t, base, "head -c 8192 /dev/zero | tr '\\0' A > table; sync; "+read)
	archived := func() workspace {
		t.Helper()
		me.setDesiredState(t, w.ID, "ARCHIVED")
		w := me.awaitPhase(t, w.ID, "ARCHIVED")
		if h.hasVolume(t, w.ID) {
			t.Fatal("the volume of the archived workspace is there")
		}
		return w
	}
	woken := func() {
		t.Helper()
		me.setDesiredState(t, w.ID, "RUNNING")
		me.awaitPhase(t, w.ID, "RUNNING")
		wait.For(t, "the workspace answers", func() error { return me.showsTerminal(t, base) })
	}
	before := archived()
	woken()
	if again := archived(); again.ArchiveKey != before.ArchiveKey {
		t.Errorf("without a power cut a home in which nothing has changed is archived anew")
	}
	woken()
	now := me.run(t, base, "head -c 8192 /dev/zero | tr '\\0' B | dd of=table conv=notrunc 2>/dev/null; sync -d table; "+read)
	if now == old || len(now) != 64 {
		t.Fatalf("the file's checksum was %q and is %q", old, now)
	}
	h.lose(t)
	h.boot(t)
	me.awaitPhase(t, w.ID, "RUNNING")
	if after := archived(); after.ArchiveKey == before.ArchiveKey {
		t.Errorf("after the power cut the archive of before is taken for current")
	}
	woken()
	if got := me.run(t, base, read); got != now {
		t.Fatalf("after the power cut and an archive the file's checksum is %q; it was %q, and before that %q", got, now, old)
	}
}
