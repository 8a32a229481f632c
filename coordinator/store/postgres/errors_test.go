package postgres

import (
	"regexp"
	"testing"
	"time"
)

// gerund matches the beginning of every error: "reading candidates: ...".
var gerund = regexp.MustCompile(`^[a-z]+ing\b.*: `)

func TestErrorsSayWhatWasBeingDone(t *testing.T) {
	s, err := Open("postgres://nobody@127.0.0.1:1/nothing?connect_timeout=1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx := t.Context()
	for name, call := range map[string]func() error{
		"Migrate":       func() error { return s.Migrate(ctx) },
		"Holds":         func() error { _, err := s.Holds(ctx, Fence{Lock: "coordinator", Epoch: 1}); return err },
		"WriterFlushed": func() error { return s.WriterFlushed(ctx, "node", 0, time.Minute) },
		"WriterGone":    func() error { return s.WriterGone(ctx) },
		"Writers":       func() error { _, err := s.Writers(ctx); return err },
		"Listen":        func() error { return s.Listen(ctx, nil, nil) },
	} {
		if err := call(); err == nil {
			t.Errorf("%s succeeded without a server", name)
		} else if !gerund.MatchString(err.Error()) {
			t.Errorf("%s: %q does not begin with what it was doing", name, err)
		}
	}
}
