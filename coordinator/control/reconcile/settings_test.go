package reconcile_test

import (
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/control/reconcile"
)

func TestSettingsAreValidatedTogether(t *testing.T) {
	s := reconcile.DefaultSettings()
	if err := s.Validate(); err != nil {
		t.Fatalf("the defaults: %v", err)
	}
	err := reconcile.Settings{}.Validate()
	for _, want := range []string{"idle_interval", "active_interval", "max_concurrent", "max_retry", "max_jobs",
		"max_loss_share", "timeouts starting"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is not mentioned in: %v", want, err)
		}
	}
}
