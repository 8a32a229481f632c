package contract

import "testing"

const mib, gib, tib = int64(1 << 20), int64(1 << 30), int64(1 << 40)

// TestPartsHoldALargeHome checks the sizes against the stores' limits.
func TestPartsHoldALargeHome(t *testing.T) {
	if MaxParts > 10_000 {
		t.Errorf("%d parts, and stores take 10,000", MaxParts)
	}
	for _, home := range []int64{0, 1, mib, gib, 5 * gib, 6 * gib, 20 * gib, 100 * gib, 1_000_000_000_000, tib, 1398 * gib} {
		p := PartsFor(home)
		var sum int64
		for n := 1; n <= MaxParts; n++ {
			size := p.Size(n)
			if size < 5*mib || size > 5*gib {
				t.Fatalf("%d bytes: part %d has %d bytes: stores take from 5 MiB to 5 GiB", home, n, size)
			}
			// Parts are equal up to twice the measured size.
			if sum < 2*home && size != p.Size(1) {
				t.Fatalf("%d bytes: after %d, part %d has %d bytes and the first one %d", home, sum, n, size, p.Size(1))
			}
			sum += size
		}
		if sum != p.Max() || sum < 300*gib || sum > 5*tib || p.Equal() < 2*home {
			t.Errorf("%d bytes: the parts hold %d bytes, %d of them in equal parts", home, sum, p.Equal())
		}
		// Three parts at a time take space in the scratch folder: a small share of a large home.
		if size := p.Size(1); size > FirstPart && 3*size > home/100 {
			t.Errorf("%d bytes: a part has %d bytes", home, size)
		}
	}
	// An archive may be larger than 2 TiB, the largest volume of many disks.
	for home, want := range map[int64]int64{0: 16 * mib, 5 * gib: 16 * mib, 6 * gib: 18 * mib, 20 * gib: 57 * mib, 2 * tib: 4 * gib, 1 << 62: 4 * gib} {
		if got := PartsFor(home).Size(1); got != want {
			t.Errorf("%d bytes: a part has %d bytes, not %d", home, got, want)
		}
	}
	if p := PartsFor(2 * tib); p.Equal() < 2*tib {
		t.Errorf("the equal parts of the largest home hold %d bytes", p.Equal())
	}
}
