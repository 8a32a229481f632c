package pages

import (
	"bytes"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/launch"
)

// Every icon that an image's settings can name is a picture of the dashboard.
func TestTheDashboardHasThePictureOfEveryImage(t *testing.T) {
	for file, want := range map[string][]string{
		"static/images.js":      {`["` + strings.Join(launch.Icons(), `", "`) + `"]`},
		"static/dashboard.html": launch.Icons(),
	} {
		text, err := static.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.HasPrefix(part, "[") {
				part = `<symbol id="icon-` + part + `"`
			}
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%s has no %s", file, part)
			}
		}
	}
}
