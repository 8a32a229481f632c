package coordinator

import (
	"fmt"
	"time"
)

// Health is what /health/coordinator answers to administrators (SPEC 5).
type Health struct {
	// IsLeader is whether this process leads any shard.
	IsLeader bool
	// NodeID is [Options.NodeID].
	NodeID string
	// Uptime is the time since the coordinator was created.
	Uptime time.Duration
	// Led are the shards that this process leads, and Shards is the number of all shards.
	Led    []int
	Shards int
	// Problems are messages for administrators. They are about workspaces that trigger a bug of the program, for
	// example, or about obstacles to acting on workspaces. If this process leads, they are also about obstacles to
	// isolating workspaces.
	Problems []string
}

// Health reports the state of this process from memory. It performs no I/O.
func (c *Coordinator) Health() Health {
	s := c.elector.Status()
	problems := append(c.Identity.Problems(), c.setAside()...)
	for _, part := range c.leaders {
		if part.problems != nil {
			problems = append(problems, part.problems()...)
		}
	}
	if older := c.Refused(); older != nil {
		problems = append(problems, older.Error())
	} else if s.Refused != nil {
		problems = append(problems, s.Refused.Error())
	}
	return Health{
		IsLeader: s.IsLeader, NodeID: s.NodeID, Uptime: time.Since(c.started),
		Led: s.Led, Shards: s.Shards, Problems: problems,
	}
}

// maxSetAside is how many workspaces are named in [Health.Problems].
const maxSetAside = 5

// setAside describes the workspaces in this process's shards that trigger a bug of the program.
func (c *Coordinator) setAside() []string {
	var problems []string
	all := c.controller.Faults()
	for _, f := range all[:min(len(all), maxSetAside)] {
		problems = append(problems, fmt.Sprintf("workspace %s is left as it is, because the program fails with it: %s; the log has "+
			"the place in the program", f.ID, f.Cause))
	}
	if more := len(all) - maxSetAside; more > 0 {
		problems = append(problems, fmt.Sprintf("%d more workspaces are left as they are", more))
	}
	return problems
}
