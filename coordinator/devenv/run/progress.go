package run

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// progress prints what was done and how long it took, from steps that run at the
// same time.
type progress struct {
	mu  sync.Mutex
	out io.Writer
}

// step runs do and prints its end. do returns a remark on what came out of it.
func (p *progress) step(name string, do func() (remark string, err error)) error {
	start := time.Now()
	remark, err := do()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if remark != "" {
		remark = "  " + remark
	}
	p.printf("  %-24s %6.1f s%s\n", name, time.Since(start).Seconds(), remark)
	return nil
}

func (p *progress) printf(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.out, format, args...)
}
