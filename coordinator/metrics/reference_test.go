package metrics

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the reference of the metrics anew")

// The table of metrics is written in two forms: one for people, and one for the tests of the alert rules and the
// dashboard.
const (
	metricsFile  = "../../caddymodule/docs/metrics.md"
	metricsTable = "../../caddymodule/deploy/monitoring/testdata/metrics.json"
)

// metricsIntroduction has a tilde for each backtick.
const metricsIntroduction = `# Metrics

Every metric of CodeHub, [all guides](../../README.md#what-next). [Monitoring](monitoring.md) says how to watch them. This file is
made from the table in ~coordinator/metrics~: ~go test ./coordinator/metrics -run TestMetricsReference -update~.

They are on Caddy's own metrics endpoint, ~/metrics~ of its administration address, or where the directive ~metrics~ stands.

- A label has the values that are listed and no others, and is never an id of a workspace or a user. ~other~ stands for what this
  release does not know.
- What is told by "the leader" comes from the process alone that leads, or that leads the shard. A sum over all processes counts nothing twice.
- Counters and histograms begin at 0 with the process. A reload of the configuration does not reset them.

| metric | type | told by | labels | meaning |
|---|---|---|---|---|
`

// TestMetricsReference compares the reference with the table of metrics.
func TestMetricsReference(t *testing.T) {
	var text strings.Builder
	text.WriteString(strings.ReplaceAll(metricsIntroduction, "~", "`"))
	for _, m := range table {
		by := "each process"
		if m.Leader {
			by = "the leader"
		}
		var labels []string
		for _, l := range m.Labels {
			values := "`" + strings.Join(l.Values, "` `") + "`"
			switch l.Name {
			case "shard":
				values = fmt.Sprintf("`0` to `%d`", len(l.Values)-1)
			case "version", "revision": // these would change the file with each release
				values = "of the program"
			}
			labels = append(labels, "`"+l.Name+"`: "+values)
		}
		fmt.Fprintf(&text, "| `%s` | %s | %s | %s | %s |\n", m.Name, m.Kind, by, strings.Join(labels, "; "), m.Help)
	}
	values, err := json.MarshalIndent(table, "", "\t")
	if err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{metricsFile: text.String(), metricsTable: string(values) + "\n"} {
		if *update {
			if err := os.WriteFile(file, []byte(want), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != want {
			t.Errorf("%s is not what the table says (%v): go test ./coordinator/metrics -run TestMetricsReference -update", file, err)
		}
	}
}
