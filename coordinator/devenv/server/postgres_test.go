package server

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
)

// TestGivingAwayWhatVanishes: the folder of a server that is still ending changes meanwhile.
func TestGivingAwayWhatVanishes(t *testing.T) {
	c := &syscall.Credential{Uid: uint32(os.Getuid()), Gid: uint32(os.Getgid())}
	dir := t.TempDir()
	for round := range 5 {
		var names []string
		for i := range 500 {
			name := filepath.Join(dir, fmt.Sprint("folder", i%5), fmt.Sprint(round, "-", i))
			if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(name, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
		var removal sync.WaitGroup
		removal.Go(func() {
			for i := range names {
				_ = os.Remove(names[len(names)-1-i])
			}
			_ = os.RemoveAll(filepath.Join(dir, "folder4"))
		})
		if err := giveTo(c, dir); err != nil {
			t.Error(err)
		}
		removal.Wait()
	}
	if err := giveTo(c, filepath.Join(dir, "none")); err == nil {
		t.Error("a folder that is not there was given away")
	}
}
