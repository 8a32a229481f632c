package workspace_test

import (
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

func conditions(volume, archive, container bool) workspace.Conditions {
	c := workspace.Conditions{}
	for t, v := range map[workspace.ConditionType]bool{
		workspace.VolumeReady: volume, workspace.ArchiveReady: archive, workspace.ContainerReady: container,
	} {
		s := "False"
		if v {
			s = "True"
		}
		c[t] = workspace.Condition{Status: s}
	}
	return c
}

func TestJudge(t *testing.T) {
	unhealthy := conditions(true, true, true)
	unhealthy[workspace.PolicyHealthy] = workspace.Condition{Status: "False"}
	for name, c := range map[string]struct {
		conditions workspace.Conditions
		deleted    bool
		key        string
		want       workspace.Phase
	}{
		"nothing":                       {conditions(false, false, false), false, "", workspace.PhasePending},
		"archive":                       {conditions(false, true, false), false, "k", workspace.PhaseArchived},
		"archive without a key":         {conditions(false, true, false), false, "", workspace.PhasePending},
		"volume":                        {conditions(true, false, false), false, "", workspace.PhaseStandby},
		"volume and archive":            {conditions(true, true, false), false, "k", workspace.PhaseStandby},
		"container and volume":          {conditions(true, false, true), false, "", workspace.PhaseRunning},
		"unhealthy wins":                {unhealthy, false, "k", workspace.PhaseError},
		"deleted wins over unhealthy":   {unhealthy, true, "k", workspace.PhaseDeleting},
		"deleted with an archive":       {conditions(false, true, false), true, "k", workspace.PhaseDeleting},
		"deleted with nothing left":     {conditions(false, false, false), true, "k", workspace.PhaseDeleted},
		"no conditions yet are healthy": {nil, false, "", workspace.PhasePending},
	} {
		t.Run(name, func(t *testing.T) {
			var at time.Time
			if c.deleted {
				at = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
			}
			if got := workspace.Judge(c.conditions, at, c.key, workspace.PhaseStandby); got != c.want {
				t.Errorf("phase %s, want %s", got, c.want)
			}
		})
	}
}
