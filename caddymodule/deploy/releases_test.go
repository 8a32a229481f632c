package deploy_test

import (
	"encoding/json"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/util/yaml"

	releases "github.com/codehub/gateway/coordinator/devenv/release"
)

// TestValuesOfOlderReleases checks that the chart accepts the values of each earlier release that had a chart.
func TestValuesOfOlderReleases(t *testing.T) {
	schema, err := jsonschema.NewCompiler().Compile(schemaFile)
	if err != nil {
		t.Fatal(err)
	}
	for _, past := range releases.All {
		t.Run(past.String(), func(t *testing.T) {
			for _, path := range []string{"values.yaml", "testdata/minimal.values.yaml", "testdata/full.values.yaml"} {
				text := past.File(t, "caddymodule/deploy/chart/"+path)
				if text == nil {
					continue // that release had no chart
				}
				var values any
				if err := yaml.Unmarshal(text, &values); err != nil {
					t.Fatal(err)
				}
				set := values.(map[string]any)
				if path == "values.yaml" { // leaves the required values to the operator
					set["public_url"], set["domain"], set["secretName"] = "https://codehub.example.com", "ws.example.com", "codehub"
				}
				if text, err = json.Marshal(set); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal(text, &values); err != nil {
					t.Fatal(err)
				}
				if err := schema.Validate(values); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			}
		})
	}
}
