package pages

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/dataplane/auth"
)

// If another authentication accepts a user who may not use CodeHub, the sign-in page tells the user why.
func TestTheSignInPageSaysWhyItRefuses(t *testing.T) {
	t.Parallel()
	p, err := Load()
	if err != nil {
		t.Fatal(err)
	}
	for why, texts := range map[error][2]string{
		auth.ErrDisabled:    {"account is disabled", "중지된 계정"},
		auth.ErrUnknownUser: {"have no account here", "계정이 없습니다"},
		auth.ErrRefusedName: {"letters of several scripts", "여러 문자 체계가 섞인"},
		auth.ErrNoSession:   {"did not say who you are", "확인하지 못했습니다"},
	} {
		for i, language := range []string{"en", "ko"} {
			w, r := httptest.NewRecorder(), httptest.NewRequest("GET", "/login", nil)
			r.Header.Set("Accept-Language", language)
			refusal := fmt.Errorf("%w: %w", auth.ErrNoSession, why)
			if err := p.ShowLogin(w, r, Login{Refusal: refusal}); err != nil {
				t.Fatal(err)
			}
			if text := w.Body.String(); w.Code != 403 || !strings.Contains(text, texts[i]) {
				t.Errorf("%v in %s: %d %s", why, language, w.Code, text)
			}
		}
	}
}
