package isolation

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zaptest/observer"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/egress"
)

// TestIsolationIsTold: each state of the isolation is logged once. While a problem lasts, each health answer includes
// it.
func TestIsolationIsTold(t *testing.T) {
	core, logs := observer.New(zap.InfoLevel)
	k := New(backend.Backend{}, nil, zap.New(core))
	unable := fmt.Errorf("keeping: %w", &egress.UnableError{Err: errors.New("no nf_tables")})
	for _, step := range []struct {
		stood   bool
		err     error
		logged  string // the last line; "" for none
		problem string
	}{
		{false, unable, "run without firewall rules", "run without firewall rules: keeping: no nf_tables"},
		{false, unable, "", "run without firewall rules"},
		{false, nil, "can have firewall rules by now", ""},
		{true, nil, "", ""},
		{false, nil, "have been made again", ""},
		{false, errors.New("the image is missing"), "cannot be made", "cannot be made: the image is missing"},
		{false, errors.New("the image is missing"), "", "cannot be made"},
		{true, nil, "can be made again", ""},
	} {
		before := logs.Len()
		k.report(t.Context(), step.stood, step.err, before == 0)
		all := logs.All()[before:]
		if (step.logged == "") != (len(all) == 0) || len(all) > 0 && !strings.Contains(all[0].Message+all[len(all)-1].Message, step.logged) {
			t.Errorf("%v, %v: logged %+v", step.stood, step.err, all)
		}
		problems := k.Problems()
		if (step.problem == "") != (len(problems) == 0) || len(problems) > 0 && !strings.Contains(problems[0], step.problem) {
			t.Errorf("%v, %v: problems %q", step.stood, step.err, problems)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	before := logs.Len()
	if k.report(ctx, false, ctx.Err(), false); logs.Len() != before || len(k.Problems()) != 0 {
		t.Error("the end of a term is told as a failure")
	}
}
