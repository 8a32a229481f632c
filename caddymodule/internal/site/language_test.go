package site

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestLanguage(t *testing.T) {
	for headers, want := range map[string]string{
		"":                                               "en",
		"Accept-Language: ko-KR,ko;q=0.9":                "ko",
		"Accept-Language: en;q=0.5, ko":                  "ko",
		"Accept-Language: ko;q=0.2, en-GB;q=0.3":         "en",
		"Accept-Language: la, eo":                        "en",
		"Accept-Language: \x00;;q=x":                     "en",
		"Accept-Language: ko|Cookie: codehub_lang=en":    "en",
		"Accept-Language: en|Cookie: codehub_lang=ko":    "ko",
		"Accept-Language: ko|Cookie: codehub_lang=xx; a": "ko",
	} {
		r := httptest.NewRequest("GET", "http://h/", http.NoBody)
		for l := range strings.SplitSeq(headers, "|") {
			if name, value, ok := strings.Cut(l, ": "); ok {
				r.Header.Add(name, value)
			}
		}
		if got := Language(r); got != want {
			t.Errorf("%q: got %s, want %s", headers, got, want)
		}
	}
}
