package v1

import "github.com/codehub/gateway/coordinator/dataplane/service"

// Limits are how many workspaces of a user may run at a time, how many more may doze, and how many a
// user may have; null means no limit.
type Limits struct {
	Running    *int `json:"max_running_per_user"`
	Dozing     *int `json:"max_dozing_per_user"`
	Workspaces *int `json:"max_workspaces_per_user"`
}

// LimitsOf returns the limits as programs see them.
func LimitsOf(l service.Limits) Limits {
	return Limits{limitOrNull(l.PerUser), limitOrNull(l.Dozing.PerUser), limitOrNull(l.Workspaces)}
}

func limitOrNull(n int) *int {
	if n <= 0 {
		return nil
	}
	return &n
}
