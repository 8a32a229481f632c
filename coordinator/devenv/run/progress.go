package run

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"
)

// progress prints what was done and how long it took, from steps that run at the
// same time.
type progress struct {
	mu  sync.Mutex
	out io.Writer
	// running are the names of the steps that have begun and not ended.
	running []string
}

// step runs do and prints its end. do returns a remark on what came out of it.
func (p *progress) step(name string, do func() (remark string, err error)) error {
	start := time.Now()
	p.mu.Lock()
	p.running = append(p.running, name)
	p.mu.Unlock()
	remark, err := do()
	p.mu.Lock()
	p.running = slices.DeleteFunc(p.running, func(other string) bool { return other == name })
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if remark != "" {
		remark = "  " + remark
	}
	p.printf("  %-24s %6.1f s%s\n", name, time.Since(start).Seconds(), remark)
	return nil
}

// remind prints from time to time what is still being done, until ctx ends: the first
// time, some steps compile for minutes.
func (p *progress) remind(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		p.mu.Lock()
		if len(p.running) > 0 {
			fmt.Fprintf(p.out, "  still working on: %s\n", strings.Join(p.running, ", "))
		}
		p.mu.Unlock()
	}
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format, args...)
}
