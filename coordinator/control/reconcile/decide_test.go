package reconcile

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/codehub/gateway/coordinator/control/reconcile/internal/observation"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestBackoff is the table of SPEC 1, contract 10.
func TestBackoff(t *testing.T) {
	for failures, want := range map[int]time.Duration{
		1: time.Second, 2: 2 * time.Second, 3: 4 * time.Second, 4: 8 * time.Second, 5: 16 * time.Second,
		6: 30 * time.Second, 7: 30 * time.Second, 1000: 30 * time.Second, 0: 30 * time.Second, -1: 30 * time.Second,
	} {
		shortest, longest := want, want
		for range 1000 {
			d := backoff(failures)
			shortest, longest = min(shortest, d), max(longest, d)
		}
		if shortest < want/2 || longest > want*3/2 || shortest > want*6/10 || longest < want*14/10 {
			t.Errorf("after %d failures: %s to %s, want %s ±50 %%", failures, shortest, longest, want)
		}
	}
}

func TestStorableText(t *testing.T) {
	for text, want := range map[string]string{
		"":               "",
		"plain":          "plain",
		"nul\x00byte":    "nulbyte",
		"not \xff UTF-8": "not \uFFFD UTF-8",
		"컨테이너가 종료되었습니다":  "컨테이너가 종료되었습니다",
	} {
		if got := storable(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	long := storable(strings.Repeat("가", maxMessage) + "the cause")
	if !strings.HasPrefix(long, "… ") || !strings.HasSuffix(long, "the cause") || len(long) > maxMessage+10 || !utf8.ValidString(long) {
		t.Errorf("a long text becomes %d bytes, %q …", len(long), long[:10])
	}
}

func TestTheMoreOperationsTheLessOftenProgressIsSaved(t *testing.T) {
	for n, want := range map[int]time.Duration{0: 800 * time.Millisecond, 40: 800 * time.Millisecond, 100: 2 * time.Second, 1000: 20 * time.Second} {
		l := &loop{states: make(map[workspace.ID]*state)}
		for i := range n {
			l.of(workspace.ID(rune(i))).progress = new(observation.Tracker)
		}
		if got := l.progressEvery(); got != want {
			t.Errorf("with %d operations every %s, want %s", n, got, want)
		}
	}
}
