package settings

import (
	"strings"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Timeouts bound how long an operation may take before it counts as failed.
type Timeouts struct {
	// CreateEmptyArchive bounds creating the archive of an empty home. Default: 5m.
	CreateEmptyArchive Value `json:"create_empty_archive,omitempty"`
	// Provisioning bounds creating a volume. Default: 5m.
	Provisioning Value `json:"provisioning,omitempty"`
	// Restoring bounds restoring a home from its archive. Default: 30m.
	Restoring Value `json:"restoring,omitempty"`
	// Starting bounds starting the container until it accepts traffic. Default: 5m.
	Starting Value `json:"starting,omitempty"`
	// Stopping bounds removing the container. Default: 5m.
	Stopping Value `json:"stopping,omitempty"`
	// Archiving bounds moving a home to the object store. Default: 30m.
	Archiving Value `json:"archiving,omitempty"`
	// Deleting bounds removing container and volume of a deleted workspace. Default:
	// 10m.
	Deleting Value `json:"deleting,omitempty"`
}

// timeoutTable lists the settings of how long operations may take without progress; see [App.Table].
func (a *App) timeoutTable(r *Resolved) (s []Setting) {
	t, limits := &a.Timeouts, r.Live.Reconcile.Timeouts
	for _, row := range []struct {
		op   workspace.Operation
		text *Value
	}{
		{workspace.OpCreateEmptyArchive, &t.CreateEmptyArchive},
		{workspace.OpProvisioning, &t.Provisioning},
		{workspace.OpRestoring, &t.Restoring},
		{workspace.OpStarting, &t.Starting},
		{workspace.OpStopping, &t.Stopping},
		{workspace.OpArchiving, &t.Archiving},
		{workspace.OpDeleting, &t.Deleting},
	} {
		limit := limits[row.op]
		read := parse.Duration(&limit, shortestTTL)
		s = append(s, Setting{"timeouts " + strings.ToLower(string(row.op)), row.text, limit.String(), "", func(text string) error {
			err := read(text)
			limits[row.op] = limit
			return err
		}})
	}
	return s
}
