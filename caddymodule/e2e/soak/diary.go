package soak

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Diary records what a user has written into one home: the lines of one file, and other whole files. It is safe for
// concurrent use.
type Diary struct {
	mu    sync.Mutex
	lines []string // in the order in which they were typed
	acked map[string]bool
	files map[string]string // the sums of those that were acknowledged
}

// NewDiary returns an empty diary.
func NewDiary() *Diary { return &Diary{acked: map[string]bool{}, files: map[string]string{}} }

// Next returns a new line to type.
func (d *Diary) Next() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	line := fmt.Sprintf("line-%d", len(d.lines)+1)
	d.lines = append(d.lines, line)
	return line
}

// Written records that the workspace has acknowledged the line.
func (d *Diary) Written(line string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.acked[line] = true
}

// WrittenFile records that the workspace has acknowledged a file with that checksum.
func (d *Diary) WrittenFile(name, sum string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.files[name] = sum
}

// Files returns the names of the acknowledged files, in order.
func (d *Diary) Files() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Sorted(maps.Keys(d.files))
}

// Acknowledged returns how many lines and files were acknowledged.
func (d *Diary) Acknowledged() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.acked) + len(d.files)
}

// Check compares the file with the lines, and the checksums of the other files, with what the workspace has
// acknowledged. Every acknowledged line is there once, in the order of typing. A line that was typed but not
// acknowledged may be there once, too. It may stand after lines that were typed later, but not before lines that were
// typed earlier, because it may have been delayed in a broken connection. Nothing else is there.
func (d *Diary) Check(content string, sums map[string]string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	typed := map[string]int{}
	for i, line := range d.lines {
		typed[line] = i
	}
	seen, last := map[string]bool{}, -1
	for line := range strings.Lines(content) {
		line = strings.TrimSpace(line)
		at, known := typed[line]
		switch {
		case !known:
			return fmt.Errorf("the file has the line %q, which was never typed", line)
		case seen[line]:
			return fmt.Errorf("the file has the line %q twice", line)
		case d.acked[line] && at < last:
			return fmt.Errorf("the line %q stands after %q, which was typed later", line, d.lines[last])
		case d.acked[line]:
			last = at
		}
		seen[line] = true
	}
	for _, line := range d.lines {
		if d.acked[line] && !seen[line] {
			return fmt.Errorf("the file lacks %q, which was acknowledged", line)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.files)) {
		if sums[name] != d.files[name] {
			return fmt.Errorf("the sum of the file %s is %q, it was %q", name, sums[name], d.files[name])
		}
	}
	return nil
}
