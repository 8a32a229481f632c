package reconcile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/control/reconcile"
	"github.com/codehub/gateway/coordinator/workspace"
)

func TestSettingsAreValidatedTogether(t *testing.T) {
	s := reconcile.DefaultSettings()
	if err := s.Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	s.Timeouts["DANCING"] = time.Second
	delete(s.Timeouts, workspace.OpArchiving)
	s.Timeouts[workspace.OpStarting] = -time.Second
	err := s.Validate()
	for _, want := range []string{"DANCING", "ARCHIVING", "STARTING"} {
		if err == nil || !strings.Contains(err.Error(), "timeout of "+want+": ") {
			t.Errorf("the timeout of %s is not mentioned in: %v", want, err)
		}
	}
	err = reconcile.Settings{}.Validate()
	for _, want := range []string{"idle_interval", "active_interval", "active_for", "sweep_interval", "max_concurrent", "max_retry",
		"max_jobs", "max_pulls", "wait_limit", "keep_deleted", "max_loss_share"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not mentioned in: %v", want, err)
		}
	}
}
