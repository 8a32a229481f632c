package sbom

import (
	"bytes"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/codehub/gateway/storagejob/contract"
)

// The test makes the bill of materials of its own test program, which is a program like any other.
func TestBillOfAProgram(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	const root = "../../../.."
	first, licences, err := Of(t.Context(), root, self, "test")
	if err != nil {
		t.Fatal(err)
	}
	if bill, texts, err := Of(t.Context(), root, self, "test"); err != nil || !bytes.Equal(bill, first) || !bytes.Equal(texts, licences) {
		t.Errorf("the same program has another bill, or other licences, the second time: %v", err)
	}
	own, err := os.ReadFile(root + "/LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(string(licences), "test "+contract.Release+"\n") || !bytes.Contains(licences, bytes.TrimSpace(own)) ||
		!bytes.Contains(licences, []byte("\nGo "+strings.TrimPrefix(runtime.Version(), "go"))) {
		t.Errorf("the licences are %.300s", licences)
	}
	if !strings.Contains(string(first), `"bomFormat": "CycloneDX"`) || !strings.Contains(string(first), `pkg:golang/std@`) {
		t.Errorf("the bill is %.300s", first)
	}
	if err := Check(first); err != nil {
		t.Error(err)
	}
	if table, err := Table(first); err != nil || !strings.Contains(table, "\tBSD-3-Clause\n") {
		t.Errorf("the table is %q, %v", table, err)
	}
}

func TestCheck(t *testing.T) {
	const bill = `{"components": [{"name": "m", "version": "v1", "licenses": [{"license": {"id": "%"}}]}]}`
	for _, c := range []struct{ bill, want string }{
		{strings.ReplaceAll(bill, "%", "MIT"), ""},
		{strings.ReplaceAll(bill, "%", "AGPL-3.0"), "m v1 has the licence AGPL-3.0, which is not allowed"},
		{`{"components": [{"name": "m", "version": "v1", "licenses": []}]}`, "the licence of m v1 is not known"},
		{`{}`, "the bill of materials is empty"},
		{`x`, "reading the bill of materials"},
	} {
		err := Check([]byte(c.bill))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v", c.bill, err)
		}
	}
}
