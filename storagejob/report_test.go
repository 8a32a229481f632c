package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/codehub/gateway/storagejob/contract"
)

// TestNoLineMixesTwoSteps: a step's numbers are never printed with the name of the step before.
func TestNoLineMixesTwoSteps(t *testing.T) {
	totals := map[string]int64{contract.StepArchive: 0, contract.StepVerify: 7}
	var out bytes.Buffer
	rep := newReporter(&out, contract.About{Workspace: "w", OpID: "o"}, time.Nanosecond)
	for range 3000 {
		for step, total := range totals {
			rep.begin(step, total)
			_, _ = transferWriter{rep}.Write(make([]byte, total))
		}
	}
	rep.finish(contract.Result{}, nil)
	for d := json.NewDecoder(&out); ; {
		var p contract.ProgressLine
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Fatal(err)
		}
		if p.Event == contract.EventProgress && p.Total != totals[p.Step] {
			t.Fatalf("%+v", p)
		}
	}
}
