package doctor

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/store/postgres"
)

func TestDoctorComparesTheReleaseWithTheSchema(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    postgres.Release
		want []check.Level
		says string
	}{
		{"no schema yet", postgres.Release{Known: 5}, nil, ""},
		{"an older schema", postgres.Release{Known: 6, Schema: 5, Lead: 5, Serve: 1}, nil, ""},
		{"its own", postgres.Release{Known: 5, Schema: 5, Lead: 5, Serve: 1}, nil, ""},
		{"an addition", postgres.Release{Known: 5, Schema: 6, Lead: 5, Serve: 1}, []check.Level{check.LevelWarning}, "version 6"},
		{"newer leaders", postgres.Release{Known: 5, Schema: 6, Lead: 6, Serve: 1}, []check.Level{check.LevelWarning}, "upgrade this process"},
		{"newer processes", postgres.Release{Known: 5, Schema: 7, Lead: 6, Serve: 6}, []check.Level{check.LevelProblem}, "backup"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := schema(tt.r)
			if len(found) != len(tt.want) {
				t.Fatalf("found %+v", found)
			}
			for i, f := range found {
				if f.Level != tt.want[i] || !strings.Contains(f.Text, tt.says) {
					t.Errorf("found %+v", f)
				}
			}
		})
	}
}
