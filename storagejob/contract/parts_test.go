package contract

import "testing"

// TestPartsHoldALargeHome is the arithmetic of stores' limits.
func TestPartsHoldALargeHome(t *testing.T) {
	const mib, gib = int64(1 << 20), int64(1 << 30)
	if MaxParts > 10_000 {
		t.Errorf("%d parts, and stores take 10,000", MaxParts)
	}
	var sum int64
	for n := 1; n <= MaxParts; n++ {
		size := PartSize(n)
		if size < 5*mib || size > 5*gib {
			t.Errorf("part %d has %d bytes: stores take from 5 MiB to 5 GiB", n, size)
		}
		if n > 1 && size < PartSize(n-1) {
			t.Errorf("part %d is smaller than the one before", n)
		}
		// A part is sent again when it fails, and three of them take room in the scratch folder.
		// Both stay a small share of a large archive.
		if size > FirstPart && size*40 > sum {
			t.Errorf("part %d has %d bytes after %d", n, size, sum)
		}
		sum += size
	}
	if sum <= 1_000_000_000_000 || sum <= 1<<40 || sum != MaxArchive() {
		t.Errorf("%d parts hold %d bytes", MaxParts, sum)
	}
	// S3's own limit for an object.
	if sum > 5<<40 {
		t.Errorf("an archive of %d bytes is more than a store takes", sum)
	}
	for n, want := range map[int]int64{1: 16 * mib, 80: 16 * mib, 81: 32 * mib, 161: 64 * mib, 640: 2 * gib,
		641: 4 * gib, MaxParts: 4 * gib} {
		if got := PartSize(n); got != want {
			t.Errorf("part %d has %d bytes, not %d", n, got, want)
		}
	}
}
