package service

import (
	"errors"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/launch"
)

func TestGitURL(t *testing.T) {
	catalog := launch.Catalog{{Name: "code", Reference: "test/code:1", Git: true}, {Name: "plain", Reference: "test/plain:1"}}
	const address, credentials, image = "https:// or ssh://", "password or token", "image"
	for _, c := range []struct{ given, image, refused string }{
		{"", "", ""}, {"", "plain", ""}, {" \n", "plain", ""},
		{"https://git.example/team/project.git", "", ""},
		{" https://git.example:8443/~ann/project ", "code", ""},
		{"https://[2001:db8::1]/a", "", ""},
		{"https://한글.example/팀/프로젝트", "", ""},
		{"ssh://git.example/a", "", ""}, {"ssh://git@git.example:2222/a/b.git", "", ""},
		{"git@git.example:team/project.git", "", ""}, {"org-1@git_host:~/a", "", ""},
		{"https://git.example/" + strings.Repeat("a", MaxGitURL-20), "", ""},

		{"https://git.example/" + strings.Repeat("a", MaxGitURL-19), "", "1000 characters"},
		{"https://git.example/a\x00b", "", "control"}, {"https://git.example/a b", "", "control"},
		{"https://git.example/a\nb", "", "control"}, {"https://git.example/a\u202eb", "", "control"},
		{"https://git.example/\xff", "", "UTF-8"},
		{"https://git.example/a", "plain", image}, {"https://git.example/a", "registry.example/any:1", image},
		// Addresses that git would understand differently, or run.
		{"http://git.example/a", "", address}, {"git://git.example/a", "", address},
		{"file:///etc", "", address}, {"/home/coder/a", "", address}, {"../a", "", address},
		{"ext::sh -c true", "", "control"}, {"ext::sh", "", address}, {"HTTPS://git.example/a", "", address},
		{"-uhttps://git.example/a", "", address}, {"--upload-pack=x", "", address},
		{"ssh://-oProxyCommand=x/a", "", address}, {"ssh://-oProxyCommand=x@git.example/a", "", address},
		{"git@-oProxyCommand=x:a", "", address}, {"-o@git.example:a", "", address}, {"git@git.example:-a", "", address},
		{"git.example:a", "", address}, {"git@git.example", "", address}, {"git@git.example:", "", address},
		{"https://", "", address}, {"https://git.example", "", address}, {"https://git.example/", "", address},
		{"https:git.example/a", "", address}, {`https://git.example\@other.example/a`, "", address},
		{"https://git.example:port/a", "", address}, {"ssh://git%0a@git.example/a", "", address},
		// Credentials.
		{"https://ann:secret@git.example/a", "", credentials}, {"https://ghp_secret@git.example/a", "", credentials},
		{"https://:@git.example/a", "", credentials}, {"https://@git.example/a", "", credentials},
		{"ssh://git:secret@git.example/a", "", credentials},
		{"https://git.example/a?private_token=secret", "", credentials}, {"https://git.example/a#secret", "", credentials},
		{"git:secret@git.example:a", "", address},
	} {
		got, err := cleanGitURL(c.given, c.image, catalog)
		if c.refused == "" {
			if err != nil || got != strings.TrimSpace(c.given) {
				t.Errorf("%q: %q, %v", c.given, got, err)
			}
			continue
		}
		var invalid *InvalidError
		if !errors.As(err, &invalid) || invalid.Field != "git_url" || !strings.Contains(err.Error(), c.refused) ||
			!strings.HasPrefix(err.Error(), "git_url must ") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v, want %q", c.given, err, c.refused)
		}
	}
}
