package workspace

import "time"

// Busy is why a workspace that is not in use is kept awake (SPEC 6). It is stored as JSON.
type Busy struct {
	// Reason is one of the Busy… constants. Programs may compare it.
	Reason string `json:"reason"`
	// Detail names the busy program, such as a command or a notebook. It comes from the workspace: show it, but do not
	// trust it.
	Detail string `json:"detail,omitempty"`
	// Since is when the workspace was first seen busy after its last use.
	Since time.Time `json:"since"`
}

// PageActivity is how the gateway tells a person from an open tab in a workspace's pages
// (SPEC 6).
type PageActivity string

const (
	// PagePresence: the pages report what a person does, and nothing else that they send
	// counts.
	PagePresence PageActivity = "presence"
	// PageTraffic: the pages cannot carry the script that reports what a person does, so everything that they send
	// counts.
	PageTraffic PageActivity = "traffic"
)
