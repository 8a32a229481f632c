package leader

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/codehub/gateway/coordinator/seed"
)

// scene returns a view of processes that have n shards, in which each process leads the shards that led names.
func scene(n int, led map[uint32][]int) view {
	v := view{members: make(map[uint32]int), holders: make(map[key]uint32)}
	for p, shards := range led {
		v.members[p] = n
		for _, shard := range shards {
			v.holders[shardKey(n, shard)] = p
		}
	}
	return v
}

func TestEachProcessTakesItsShareAndGivesUpTheRest(t *testing.T) {
	for _, tt := range []struct {
		name string
		led  map[uint32][]int
		want moves // of process 1
	}{
		{"alone: everything", map[uint32][]int{1: {}}, moves{take: []int{0, 1, 2, 3, 4, 5, 6, 7}}},
		{"alone, after another one's death", map[uint32][]int{1: {0, 1, 2, 3}}, moves{take: []int{4, 5, 6, 7}}},
		{"three begin", map[uint32][]int{1: {}, 2: {}, 3: {}}, moves{take: []int{0, 1, 2}}},
		{"three begin, the last one of them", map[uint32][]int{1: {}, 0: {}, 2: {}}, moves{take: []int{2, 3, 4}}},
		{"one has come", map[uint32][]int{1: {0, 1, 2, 3, 4, 5, 6, 7}, 2: {}}, moves{give: []int{4, 5, 6, 7}}},
		{"a third has come", map[uint32][]int{1: {0, 1, 2, 3}, 2: {4, 5, 6, 7}, 3: {}}, moves{give: []int{3}}},
		{"it has its share and others have not taken theirs", map[uint32][]int{1: {0, 1, 2}, 2: {}, 3: {}}, moves{}},
		{"a fair share that could be larger", map[uint32][]int{1: {6, 7}, 2: {0, 1, 2}, 3: {3, 4, 5}}, moves{}},
		{"one of three died", map[uint32][]int{1: {0, 1, 2}, 2: {3, 4, 5}}, moves{take: []int{6}}},
		{"more processes than shards", map[uint32][]int{1: {}, 2: {0}, 3: {1}, 4: {2}, 5: {3}, 6: {4}, 7: {5}, 8: {6}, 9: {7}}, moves{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := scene(8, tt.led).balance(1, 8); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("it decides %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestTheSmallestNumberOfShardsLeads(t *testing.T) {
	mixed := scene(8, map[uint32][]int{1: {2, 5}})
	mixed.members[9] = 4
	old := scene(4, map[uint32][]int{2: {0}})
	old.members[1] = 8
	former := scene(4, map[uint32][]int{1: {}})
	former.members[2], former.holders[shardKey(8, 3)] = 8, 2
	single := scene(8, map[uint32][]int{1: {0}, 2: {1}})
	single.single = true
	for _, tt := range []struct {
		name   string
		v      view
		shards int
		want   moves
	}{
		{"a process with fewer has come", mixed, 8, moves{give: []int{2, 5}, yield: 4}},
		{"one with fewer leads", old, 8, moves{yield: 4}},
		{"one with more has not given up yet", former, 4, moves{yield: 8}},
		{"one with a single shard leads or waits", single, 8, moves{give: []int{0}, yield: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.v.balance(1, tt.shards); fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("it decides %+v, want %+v", got, tt.want)
			}
		})
	}
}

// Processes join, die and look in random order. After that, each process has its share after a few looks, and no shard
// moves any more. No more shards have moved than necessary.
func TestSharesSettle(t *testing.T) {
	for _, number := range seed.Numbers(t, 500) {
		r := rand.New(rand.NewPCG(number, 6))
		n := 2 + r.IntN(15)
		led := map[uint32][]int{1: {}}
		next := uint32(2)
		look := func(p uint32) (moved int) {
			d := scene(n, led).balance(p, n)
			if len(d.give) > 0 && len(d.take) > 0 {
				t.Fatalf("SEED=%d: process %d gives %v and takes %v", number, p, d.give, d.take)
			}
			led[p] = slices.DeleteFunc(led[p], func(s int) bool { return slices.Contains(d.give, s) })
			led[p] = append(led[p], d.take...)
			if most := (n + len(led) - 1) / len(led); len(led[p]) > most {
				t.Fatalf("SEED=%d: process %d leads %v of %d beside %d others", number, p, led[p], n, len(led)-1)
			}
			return len(d.give) + len(d.take)
		}
		all := func() (ps []uint32) {
			for p := range led {
				ps = append(ps, p)
			}
			slices.Sort(ps)
			r.Shuffle(len(ps), func(i, j int) { ps[i], ps[j] = ps[j], ps[i] })
			return ps
		}
		settle := func() (moved int) {
			for round := 0; ; round++ {
				now := 0
				for _, p := range all() {
					now += look(p)
				}
				if moved += now; now == 0 {
					return moved
				}
				if round > 10 {
					t.Fatalf("SEED=%d: shares do not settle: %v", number, led)
				}
			}
		}
		for range 10 {
			switch {
			case r.IntN(2) == 0:
				led[next] = nil
				next++
			case len(led) > 1:
				delete(led, all()[0])
			}
			for range r.IntN(4) {
				look(all()[0])
			}
		}
		settle()
		total := 0
		for p, shards := range led {
			total += len(shards)
			if len(shards) < n/len(led) {
				t.Fatalf("SEED=%d: process %d leads %d of %d, of %d processes", number, p, len(shards), n, len(led))
			}
		}
		if total != n {
			t.Fatalf("SEED=%d: %d of %d shards have a leader", number, total, n)
		}
		led[next] = nil
		if moved, share := settle(), (n+len(led)-1)/len(led); moved > 2*share {
			t.Fatalf("SEED=%d: %d steps for a process whose share is %d of %d", number, moved, share, n)
		}
	}
}

func TestTheLocksOfInstallationsAndUsesDiffer(t *testing.T) {
	spaces := map[int32]int64{1129268290: 0} // the lock of the limits, package store
	for _, id := range []int64{1, 2, 12345, 4711, -1, 1 << 40, 1<<40 + 1} {
		if other, used := spaces[space(id)]; used {
			t.Errorf("lock ids %d and %d use the same locks", id, other)
		}
		spaces[space(id)] = id
	}
	keys := make(map[key]bool)
	for _, n := range []int{2, 3, 8, MaxShards} {
		all := []key{memberKey(n)}
		for i := range n {
			all = append(all, shardKey(n, i))
		}
		for i, k := range all {
			if keys[k] {
				t.Fatalf("key %d of %d shards is used twice", i, n)
			}
			keys[k] = true
			if k.shards() != n || i > 0 && (k.kind() != kindShard || k.shard() != i-1) || i == 0 && k.kind() != kindMember {
				t.Errorf("key %x of %d shards reads as kind %x, %d shards, shard %d", uint32(k), n, uint32(k.kind()), k.shards(), k.shard())
			}
		}
	}
}
