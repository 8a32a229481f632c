package web

import "testing"

func TestParticles(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ word, object string }{
		// Hangul: without a final consonant, with one, with ㄹ.
		{"학교", "를"}, {"수업", "을"}, {"서울", "을"},
		{"값", "을"}, {"‘과제’", "를"}, {"실습 (가을)", "을"},
		// Digits, as they are read.
		{"과제 1", "을"}, {"과제 2", "를"}, {"과제 3", "을"}, {"과제 4", "를"}, {"과제 5", "를"},
		{"과제 6", "을"}, {"과제 7", "을"}, {"과제 8", "을"}, {"과제 9", "를"}, {"2026-10", "을"}, {"100", "을"},
		// Latin words.
		{"cs-path", "를"}, {"docker", "를"}, {"server", "를"}, {"golang", "을"}, {"python", "을"},
		{"team", "을"}, {"mail", "을"}, {"table", "을"}, {"file", "을"}, {"home", "을"}, {"line", "을"},
		{"code", "를"}, {"app", "을"}, {"git", "을"}, {"chat", "을"}, {"stack", "을"}, {"notebook", "을"},
		{"test", "를"}, {"project", "를"}, {"demo", "를"}, {"my_web", "을"}, {"study", "를"}, {"Two", "를"},
		// Letters that are read one by one.
		{"API", "를"}, {"ML", "을"}, {"R", "을"}, {"VM", "을"}, {"CDN", "을"}, {"html", "을"}, {"C++", "를"},
		// Nobody can tell.
		{"日本", "을(를)"}, {"🙂", "을(를)"}, {"", "을(를)"}, {"…", "을(를)"},
	} {
		if got := Particle(c.word, "을", "를"); got != c.object {
			t.Errorf("%s%s, want %s", c.word, got, c.object)
		}
	}
}
