package work_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/internal/work"
)

func TestBusyKernels(t *testing.T) {
	for name, c := range map[string]struct {
		status       int
		answer, want string
	}{
		"busy":            {200, `[{"name":"idle","execution_state":"idle"},{"name":"python3","execution_state":"busy"}]`, "python3"},
		"without a name":  {200, `[{"execution_state":"busy"}]`, "kernel"},
		"idle":            {200, `[{"name":"python3","execution_state":"idle"}]`, ""},
		"none":            {200, `[]`, ""},
		"wants a token":   {403, `[{"name":"python3","execution_state":"busy"}]`, ""},
		"no Jupyter":      {404, `not found`, ""},
		"another page":    {200, `<html>`, ""},
		"sends elsewhere": {302, ``, ""},
		"endless":         {200, `[` + strings.Repeat(" ", 2<<20) + `{"execution_state":"busy"}]`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				asked++
				if got := r.URL.RequestURI(); got != "/w/x/api/kernels?no_track_activity=1" {
					t.Errorf("asked %s", got)
				}
				if c.status == 302 {
					w.Header().Set("Location", "/elsewhere")
				}
				w.WriteHeader(c.status)
				_, _ = w.Write([]byte(c.answer))
			}))
			defer s.Close()
			if got, known := work.NewNotebooks().Busy(t.Context(), s.Listener.Addr().String(), "/w/x"); got != c.want || !known || asked != 1 {
				t.Errorf("%q, known %t, after %d questions, want %q after one", got, known, asked, c.want)
			}
		})
	}
	if got, known := work.NewNotebooks().Busy(t.Context(), "127.0.0.1:1", ""); got != "" || !known {
		t.Errorf("no server listens, and %q is busy, known %t", got, known)
	}
}

// TestAServerThatIsTooBusyToAnswer: such a server may have busy kernels.
func TestAServerThatIsTooBusyToAnswer(t *testing.T) {
	for name, begins := range map[string]string{"nothing": "", "a part": `[{"name":"python3",`} {
		ctx, cancel := context.WithCancel(t.Context())
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, begins)
			if begins != "" {
				_ = http.NewResponseController(w).Flush()
			}
			select {
			case <-ctx.Done():
			case <-r.Context().Done():
			}
		}))
		question, late := context.WithTimeout(ctx, 100*time.Millisecond)
		if got, known := work.NewNotebooks().Busy(question, s.Listener.Addr().String(), ""); got != "" || known {
			t.Errorf("%s: %q, known %t", name, got, known)
		}
		late()
		cancel()
		s.Close()
	}
}
