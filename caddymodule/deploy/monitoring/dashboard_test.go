package monitoring_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

const dashboardFile = "../chart/files/dashboard.json"

// grafana replaces Grafana's variables in expressions.
var grafana = strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$job", ".*")

// panel contains the fields of a panel that the tests check.
type panel struct {
	ID          int
	Type, Title string
	Datasource  struct{ UID string }
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
}

// TestTheDashboard checks that every expression parses and uses existing metrics, labels and values, and that the
// dashboard shows every metric.
func TestTheDashboard(t *testing.T) {
	text, err := os.ReadFile(dashboardFile)
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		UID, Title string
		Panels     []panel
	}
	if err := json.Unmarshal(text, &d); err != nil {
		t.Fatal(err)
	}
	if d.UID == "" || d.Title == "" {
		t.Error("the dashboard has no uid or no title")
	}
	metrics, ids, taken := table(t), make(map[int]bool), make(map[[2]int]string)
	for _, p := range d.Panels {
		if ids[p.ID] {
			t.Errorf("two panels have the id %d", p.ID)
		}
		ids[p.ID] = true
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x > 23 {
					t.Fatalf("%s and %s are at the same place, or outside", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if p.Type == "row" {
			continue
		}
		if len(p.Targets) == 0 || p.FieldConfig.Defaults.Unit == "" || p.Datasource.UID != "${datasource}" {
			t.Errorf("%s has no query, no unit or a data source of its own", p.Title)
		}
		for _, target := range p.Targets {
			check(t, metrics, grafana.Replace(target.Expr))
			if strings.Contains(target.Expr, "by (pod") != strings.Contains(target.LegendFormat, "{{pod}}") {
				t.Errorf("%s: the legend %q does not fit %s", p.Title, target.LegendFormat, target.Expr)
			}
		}
	}
	shown := string(text)
	for name, m := range metrics {
		if !strings.Contains(shown, strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(name, "_bucket"), "_count"), "_sum")) {
			t.Errorf("the dashboard does not show %s", m.Name)
		}
	}
}
