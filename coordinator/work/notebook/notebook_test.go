package notebook_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/work/notebook"
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
			if got := notebook.New().Busy(t.Context(), s.Listener.Addr().String(), "/w/x"); got != c.want || asked != 1 {
				t.Errorf("%q after %d questions, want %q after one", got, asked, c.want)
			}
		})
	}
	if got := notebook.New().Busy(t.Context(), "127.0.0.1:1", ""); got != "" {
		t.Errorf("nobody answers, and %q is busy", got)
	}
}
