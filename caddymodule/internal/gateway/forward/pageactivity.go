package forward

import (
	"context"
	"sync"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/dataplane/route"
	"github.com/codehub/gateway/coordinator/guard"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/workspace"
)

// recordTimeout bounds the write of a workspace's page activity.
const recordTimeout = 10 * time.Second

// pageWrites holds the workspaces whose rows are being written, so that each has only one write at a time.
type pageWrites struct {
	mu      sync.Mutex
	writing map[workspace.ID]bool
}

// RecordPageActivity writes into the row of a workspace how the gateway tells use by people from automatic requests of
// the workspace's pages. It writes only if the row differs. It does not block the page; after a failure the next page
// retries.
func (f *Forwarder) RecordPageActivity(e *route.Entry, activity workspace.PageActivity) {
	r, p := e.State().Route, &f.pages
	if r.PageActivity == activity || !p.enter(r.ID) {
		return
	}
	go func() {
		defer p.leave(r.ID)
		ctx, cancel := context.WithTimeout(context.Background(), recordTimeout)
		defer cancel()
		err := guard.Call(guard.Task, func() error { return f.Service.SetPageActivity(ctx, r.ID, activity) })
		if err != nil {
			f.Log.Warn("how people use the pages of a workspace is not recorded; "+
				"until it is, all that its pages send counts as use",
				zap.String(logkey.Workspace, string(r.ID)), zap.Error(err), guard.Stack(err))
		}
	}()
}

func (p *pageWrites) enter(id workspace.ID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writing[id] {
		return false
	}
	if p.writing == nil {
		p.writing = make(map[workspace.ID]bool)
	}
	p.writing[id] = true
	return true
}

func (p *pageWrites) leave(id workspace.ID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.writing, id)
}
