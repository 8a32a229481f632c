package contract

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestTheImagesSayTheirContract checks the label of each image, including that of the backends' conformance suite,
// which acts as a storage job.
func TestTheImagesSayTheirContract(t *testing.T) {
	for _, name := range []string{"../Dockerfile", "../../coordinator/backend/backendtest/testworkspace/Dockerfile"} {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("\nLABEL %s=%d\n", LabelVersion, Version); !strings.Contains(string(text), want) {
			t.Errorf("%s does not say %q", name, want)
		}
	}
}

func TestCheckLabels(t *testing.T) {
	for label, says := range map[string]string{
		strconv.Itoa(Version):     "",
		strconv.Itoa(Version + 1): fmt.Sprintf("has contract %d, this release needs contract %d", Version+1, Version),
		"":                        "does not say its contract",
		"-1":                      "does not say its contract",
		"new":                     "does not say its contract",
	} {
		err := CheckLabels("registry/job:2", map[string]string{LabelVersion: label})
		if (err == nil) != (says == "") {
			t.Errorf("%q: %v", label, err)
		}
		if err == nil {
			continue
		}
		for _, want := range []string{"registry/job:2", says, DefaultImage, "make image"} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v does not say %q", label, err, want)
			}
		}
	}
}
