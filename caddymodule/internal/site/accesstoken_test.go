package site

import (
	"encoding/base64"
	"net/http"
	"testing"
)

func TestAccessToken(t *testing.T) {
	basic := func(text string) string { return "Basic " + base64.StdEncoding.EncodeToString([]byte(text)) }
	for _, c := range []struct {
		lines         []string
		want          string
		isBasic, isOK bool
	}{
		{nil, "", false, false},
		{[]string{"Bearer chg_a"}, "chg_a", false, true},
		{[]string{basic("ann:chg_a")}, "chg_a", true, true},
		{[]string{basic(":chg_a")}, "chg_a", true, true},
		{[]string{"bAsIc  " + basic("x:chg_abc")[6:] + " "}, "chg_abc", true, true},
		{[]string{"Basic " + base64.RawURLEncoding.EncodeToString([]byte("\xff\xfe?>:chg_a"))}, "chg_a", true, true},
		// As the user name.
		{[]string{basic("chg_a:")}, "chg_a", true, true},
		{[]string{basic("chg_a:x-oauth-basic")}, "chg_a", true, true},
		{[]string{basic("chg_a")}, "chg_a", true, true},
		{[]string{basic("chg_a:chg_b")}, "chg_b", true, true},
		// Forms that some servers take for the same.
		{[]string{"Basic\t" + basic("ann:chg_a")[6:]}, "chg_a", true, true},
		{[]string{"Basic \t " + basic("ann:chg_a")[6:]}, "chg_a", true, true},
		{[]string{"Basic Yw*46Y 2hn!X2E"}, "chg_a", true, true},
		{[]string{"Basic YW5uOmNoZ19hYQ==\t."}, "chg_aa", true, true},
		{[]string{"Basic YW5uOmNoZ19hY"}, "chg_a", true, true},
		{[]string{"Bearer\tchg_a"}, "chg_a", false, true},
		// The application's own.
		{[]string{basic("ann:secret")}, "", false, false},
		{[]string{basic("ann:CHG_a")}, "", false, false},
		{[]string{basic("ann:x:chg_a")}, "", false, false},
		{[]string{"Basic chg_a"}, "", false, false},
		{[]string{"Basic"}, "", false, false},
		{[]string{"Digest x"}, "", false, false},
		// It is unknown which of several counts.
		{[]string{basic("ann:chg_a"), basic("ann:chg_a")}, "", true, true},
		{[]string{basic("ann:secret"), basic("ann:chg_a")}, "", true, true},
		{[]string{basic("ann:chg_a") + ", Digest x"}, "", true, true},
		{[]string{basic("ann:chg_a"), "Bearer chg_b"}, "", false, true},
	} {
		got, isBasic, ok := AccessToken(http.Header{"Authorization": c.lines}, "chg_")
		if got != c.want || isBasic != c.isBasic || ok != c.isOK {
			t.Errorf("%q: got %q, %v, %v", c.lines, got, isBasic, ok)
		}
	}
}
