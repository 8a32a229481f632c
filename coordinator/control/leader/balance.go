package leader

import (
	"cmp"
	"encoding/binary"
	"hash/fnv"
	"slices"
)

// The advisory locks of an installation are pairs of 32-bit numbers. The first number is derived from [Options.LockID],
// and distinguishes the installation from everything else that takes locks in this database. The second is a [key].
// One-shard processes use LockID itself, which is one 64-bit number: PostgreSQL keeps the two kinds apart.
//
//	member(n)       held, shared, by the session of every process that has n shards:
//	                who holds it is there, and disappears with its session
//	shard(n, i)     held by the leader of shard i of n
//	LockID          held, shared, by every process that leads any of several shards, and
//	                alone by the leader of one shard: so the two exclude one another, also
//	                where one of them is a program from before there were shards

// space returns the first number of the pairs.
func space(lockID int64) int32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte("codehub shards"))
	_ = binary.Write(h, binary.BigEndian, lockID)
	return int32(h.Sum32())
}

// key is the second number of a pair. It contains the kind of the lock, the number of shards that the lock's holder
// has, and the shard.
type key uint32

const (
	kindMember key = 1 << 28
	kindShard  key = 2 << 28
	kinds      key = 15 << 28
)

func memberKey(shards int) key { return kindMember | key(shards)<<12 }

func shardKey(shards, shard int) key { return kindShard | key(shards)<<12 | key(shard) }

func (k key) kind() key   { return k & kinds }
func (k key) shards() int { return int(k >> 12 & 0xffff) }
func (k key) shard() int  { return int(k & 0xfff) }

// view is the set of processes and the shards that each of them leads, as PostgreSQL's locks show them. Processes are
// identified by the number of their session.
type view struct {
	// members maps each process with several shards to its number of shards.
	members map[uint32]int
	// single means that a process that is configured with one shard leads or waits to lead.
	single bool
	// holders maps the locks of shards, of every number of shards, to their holders.
	holders map[key]uint32
}

// moves are the changes that a process makes to its shards.
type moves struct {
	// give are shards to give up, and take are shards to try to lead.
	give, take []int
	// yield is set if this process must wait for processes with another number of shards: it is that number. Otherwise
	// it is 0.
	yield int
}

// balance returns the moves of the process me, considering only processes with that number of shards. Every process
// computes the same function. If they see the same view, their targets add up to all shards, so no two processes want
// the same shard. A view in which every process has its target changes nothing.
func (v view) balance(me uint32, shards int) moves {
	var mine, others []int
	for k := range v.holders {
		switch {
		case k.shards() != shards:
			others = append(others, k.shards())
		case v.holders[k] == me:
			mine = append(mine, k.shard())
		}
	}
	slices.Sort(mine)
	least := shards
	for _, n := range v.members {
		least = min(least, n)
	}
	if v.single {
		least = 1
	}
	if least < shards {
		return moves{give: mine, yield: least}
	}
	if len(others) > 0 {
		// The other processes see this one, and give up their shards.
		return moves{yield: slices.Min(others)}
	}
	target := v.targets(shards)[me]
	if len(mine) > target {
		// Shard 0 brings more work than the others, so it moves last.
		return moves{give: mine[target:]}
	}
	return moves{take: v.free(me, shards, target-len(mine))}
}

// targets is how many shards each process should lead: each leads the same number, or one more. Those that lead the
// most keep the most, so that as few as possible move.
func (v view) targets(shards int) map[uint32]int {
	led := make(map[uint32]int)
	for k, holder := range v.holders {
		if k.shards() == shards {
			led[holder]++
		}
	}
	all := v.sorted(shards)
	slices.SortStableFunc(all, func(a, b uint32) int { return cmp.Compare(led[b], led[a]) })
	targets := make(map[uint32]int, len(all))
	for i, p := range all {
		targets[p] = shards / len(all)
		if i < shards%len(all) {
			targets[p]++
		}
	}
	return targets
}

// sorted returns the processes with that number of shards in ascending order.
func (v view) sorted(shards int) []uint32 {
	var all []uint32
	for p, n := range v.members {
		if n == shards {
			all = append(all, p)
		}
	}
	slices.Sort(all)
	return all
}

// free returns at most n shards without a leader. Each process begins with a different shard, so that they do not all
// try to take the same one.
func (v view) free(me uint32, shards, n int) (free []int) {
	all := v.sorted(shards)
	if len(all) == 0 {
		return nil
	}
	first := slices.Index(all, me) * shards / len(all)
	for i := range shards {
		shard := (first + i) % shards
		if _, held := v.holders[shardKey(shards, shard)]; !held && len(free) < n {
			free = append(free, shard)
		}
	}
	return free
}
