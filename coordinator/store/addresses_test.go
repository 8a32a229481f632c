package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/store/postgres"
	"github.com/codehub/gateway/coordinator/workspace"
)

// poolAt is the pool of n addresses from 10.0.0.1 on.
func poolAt(n int64) Pool { return Pool{Name: "ipv4", First: 10<<24 + 1, Size: n} }

// take takes an address with a quarantine of one hour and returns its number in the pool.
func take(t *testing.T, s *Store, id workspace.ID, p Pool) (int64, error) {
	t.Helper()
	slot, err := s.TakeAddress(t.Context(), fence, id, p, time.Hour)
	return slot - p.First, err
}

// runAt saves that the workspace runs at the address, or has none.
func runAt(t *testing.T, s *Store, id workspace.ID, endpoint string) {
	t.Helper()
	w := read(t, s, id)
	next := w
	next.Endpoint = endpoint
	if saved, err := s.Save(t.Context(), fence, w, next, nil); !saved || err != nil {
		t.Fatalf("saving the endpoint %q: %v, %v", endpoint, saved, err)
	}
}

// rest makes all addresses look unused for that long.
func rest(t *testing.T, s *Store, d time.Duration) {
	t.Helper()
	exec(t, s, `UPDATE workspace_addresses SET used_at = used_at - $1::interval`, d)
}

func TestTakeAddress(t *testing.T) {
	s := open(t)
	lead(t, s)
	owner := addUser(t, s)
	a, b, c := add(t, s, owner).ID, add(t, s, owner).ID, add(t, s, owner).ID
	p := poolAt(2)
	first, err := take(t, s, a, p)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := take(t, s, a, p); err != nil || again != first {
		t.Fatalf("a gets %d, %v, then %d", first, err, again)
	}
	second, err := take(t, s, b, p)
	if err != nil || second == first {
		t.Fatalf("b gets %d, %v, a has %d", second, err, first)
	}
	none := func(when string) {
		t.Helper()
		if got, err := take(t, s, c, p); !errors.Is(err, ErrNoAddress) {
			t.Fatalf("%s c gets %d, %v", when, got, err)
		}
	}
	none("while both are taken")
	runAt(t, s, a, fmt.Sprintf("10.0.0.%d:8080", first+1))
	runAt(t, s, b, fmt.Sprintf("10.0.0.%d:8080", second+1))
	rest(t, s, 2*time.Hour)
	none("while both run, for longer than the quarantine")
	runAt(t, s, a, "")
	none("when one has just stopped")
	if again, err := take(t, s, a, p); err != nil || again != first {
		t.Fatalf("a gets %d, %v at once, it had %d", again, err, first)
	}
	rest(t, s, time.Hour-time.Minute)
	none("before the quarantine has passed")
	rest(t, s, 2*time.Minute)
	if got, err := take(t, s, c, p); err != nil || got != first {
		t.Fatalf("after the quarantine c gets %d, %v", got, err)
	}
	if got, err := take(t, s, a, p); !errors.Is(err, ErrNoAddress) {
		t.Fatalf("a gets %d, %v back from c", got, err)
	}
	// An address that was never used is preferred, and the range may move.
	if got, err := take(t, s, a, poolAt(3)); err != nil || got != 2 {
		t.Fatalf("in a larger pool a gets %d, %v", got, err)
	}
	if _, err := s.TakeAddress(t.Context(), postgres.Fence{Lock: fence.Lock, Epoch: 6}, b, p, 0); !errors.Is(err, ErrDeposed) {
		t.Fatalf("a former leader gets %v", err)
	}
}

// TestAnAddressThatIsNotOurs: a container unknown to the database has the address.
func TestAnAddressThatIsNotOurs(t *testing.T) {
	s := open(t)
	lead(t, s)
	owner := addUser(t, s)
	a, b := add(t, s, owner).ID, add(t, s, owner).ID
	p := poolAt(2)
	first, err := take(t, s, a, p)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.DropAddress(t.Context(), fence, a, p.Name, p.First+first); err != nil {
		t.Fatal(err)
	}
	if got, err := take(t, s, a, p); err != nil || got == first {
		t.Fatalf("a gets %d, %v, which was refused", got, err)
	}
	if got, err := take(t, s, b, p); !errors.Is(err, ErrNoAddress) {
		t.Fatalf("b gets %d, %v", got, err)
	}
	rest(t, s, 2*time.Hour)
	if got, err := take(t, s, b, p); err != nil || got != first {
		t.Fatalf("b gets %d, %v after the quarantine", got, err)
	}
}

// TestSeenAddressesRest: an address at which a container was seen stays unused for some time, even if the pool never
// gave it out. The container may be one that a restored database has forgotten, for example.
func TestSeenAddressesRest(t *testing.T) {
	for endpoint, p := range map[string]Pool{
		"10.0.0.1:3000":   poolAt(1),
		"127.0.0.1:42000": {Name: "loopback", First: 42000, Size: 1},
	} {
		s := open(t)
		lead(t, s)
		owner := addUser(t, s)
		a, b := add(t, s, owner).ID, add(t, s, owner).ID
		runAt(t, s, a, endpoint)
		rest(t, s, 2*time.Hour)
		if got, err := take(t, s, b, p); !errors.Is(err, ErrNoAddress) {
			t.Fatalf("b gets %d, %v while a runs at %s", got, err, endpoint)
		}
		runAt(t, s, a, "")
		if got, err := take(t, s, b, p); !errors.Is(err, ErrNoAddress) {
			t.Fatalf("b gets %d, %v after a ran at %s", got, err, endpoint)
		}
		if got, err := take(t, s, a, p); err != nil || got != 0 {
			t.Fatalf("a gets %d, %v", got, err)
		}
	}
	// An address outside the pools is no error.
	s := open(t)
	lead(t, s)
	id := add(t, s, addUser(t, s)).ID
	for _, endpoint := range []string{"[fd00::1]:80", "name:80", "300.1.1.1:80", ""} {
		runAt(t, s, id, endpoint)
	}
}

// TestTakeAddressesAtOnce: leaders of several shards take addresses concurrently.
func TestTakeAddressesAtOnce(t *testing.T) {
	s := open(t)
	lead(t, s)
	owner := addUser(t, s)
	const n = 12
	var ids [n]workspace.ID
	for i := range ids {
		ids[i] = add(t, s, owner).ID
	}
	var got [n]int64
	var errs [n]error
	var wg sync.WaitGroup
	for i := range ids {
		wg.Go(func() { got[i], errs[i] = take(t, s, ids[i], poolAt(n)) })
	}
	wg.Wait()
	seen := make(map[int64]bool)
	for i := range ids {
		if errs[i] != nil || seen[got[i]] {
			t.Errorf("address %d is given out again, %v", got[i], errs[i])
		}
		seen[got[i]] = true
	}
}
