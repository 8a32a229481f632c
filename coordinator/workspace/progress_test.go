package workspace_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

func TestPercentAndTimeLeft(t *testing.T) {
	for _, c := range []struct {
		p       workspace.JobProgress
		percent int           // -1: unknown
		left    time.Duration // -1: unknown
	}{
		{workspace.JobProgress{}, -1, -1},
		{workspace.JobProgress{Done: 10, Rate: 5}, -1, -1},
		{workspace.JobProgress{Done: 0, Total: 200, Rate: 10}, 0, 20 * time.Second},
		{workspace.JobProgress{Done: 126, Total: 200}, 63, -1},
		{workspace.JobProgress{Done: 199, Total: 200, Rate: 10}, 99, time.Second}, // never 0 before the end
		{workspace.JobProgress{Done: 200, Total: 200, Rate: 10}, 100, 0},
		{workspace.JobProgress{Done: 300, Total: 200, Rate: 10}, 100, 0},
		{workspace.JobProgress{Done: 1 << 40, Total: 1 << 41, Rate: 1 << 30}, 50, 1024 * time.Second},
		{workspace.JobProgress{Done: 1, Total: 1 << 60, Rate: 1}, 0, -1}, // it makes hardly any progress
	} {
		percent, known := c.p.Percent()
		if !known {
			percent = -1
		}
		left, known := c.p.Left()
		if !known {
			left = -1
		}
		if percent != c.percent || left != c.left {
			t.Errorf("%+v: %d %%, %s left; want %d %%, %s", c.p, percent, left, c.percent, c.left)
		}
	}
}
