package workspace_test

import (
	"fmt"
	"testing"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestParseID(t *testing.T) {
	const id workspace.ID = "5f0c1a52-0000-4000-8000-0000000000aa"
	for _, s := range []string{"", "x", "5F0C1A52-0000-4000-8000-0000000000AA", "5f0c1a52000040008000-0000000000aa",
		"../../0000-4000-8000-0000000000aa", string(id) + "x", string(id) + "\n",
		"5f0c1a52-0000-4000-8000-0000000000ag", "5f0c1a52-0000-4000-8000-0000000000a-", "5f0c1a5200000-4000-8000-0000000000aa", "5f0c1a52-0000-4000-8000-0000000000é"} {
		if _, err := workspace.ParseID(s); err == nil {
			t.Errorf("%q passes", s)
		}
	}
	if got, err := workspace.ParseID(string(id)); err != nil || got != id {
		t.Error(got, err)
	}
}

// TestShard is the rule of the schema's column slot.
func TestShard(t *testing.T) {
	for id, slot := range map[workspace.ID]int{
		"00000000-0000-4000-8000-000000000000": 0, "00000000-0000-4000-8000-000000000001": 1,
		"00000000-0000-4000-8000-00000000ffff": 0xffff, "5f0c1a52-0000-4000-8000-0000000a1b2c": 0x1b2c,
	} {
		for _, shards := range []int{1, 2, 3, 8, 1000} {
			if got := id.Shard(shards); got != slot%shards {
				t.Errorf("%s is in shard %d of %d, want %d", id, got, shards, slot%shards)
			}
		}
	}
	if workspace.ID("").Shard(0) != 0 {
		t.Error("an empty id")
	}
	counts := make([]int, 8)
	for i := range 4096 {
		counts[workspace.ID(fmt.Sprintf("00000000-0000-4000-8000-00000000%04x", i*13%65536)).Shard(8)]++
	}
	for n, count := range counts {
		if count < 400 || count > 620 {
			t.Errorf("shard %d holds %d of 4096", n, count)
		}
	}
}
