// Package prepull pulls images before a workspace needs them: the configured images and those of the workspaces in
// STANDBY. Another program may have removed one since its last use.
//
// It owns which images these are, and when it looks for missing ones. It must not know how pulls share the engine, and
// it removes no image.
package prepull

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/internal/periodic"
	"github.com/codehub/gateway/coordinator/logkey"
	"github.com/codehub/gateway/coordinator/metrics"
)

// most is how many images of workspaces are pulled ahead at most: the images of the workspaces that fell asleep last.
const most = 100

// Store is the database as the puller uses it.
type Store interface {
	// SleepingImages returns up to limit images that are named in the rows of workspaces in STANDBY. It begins with the
	// workspaces that have slept for the shortest time.
	SleepingImages(ctx context.Context, limit int) ([]string, error)
}

// Options are what a [Puller] works with. All fields are required except Images and Cycles.
type Options struct {
	// Images is backend.Backend's. If it is nil, prepull does nothing.
	Images backend.Images
	Store  Store
	// Identity returns nil while the engine is the recorded one (SPEC 2).
	Identity func(ctx context.Context) error
	// Configured returns the references that the settings name.
	Configured func() []string
	// Resolve returns the actual reference for the name in a row. An error means that no workspace starts from
	// it.
	Resolve func(image string) (reference string, err error)
	// Full reports whether the disk has no room for images.
	Full func() bool
	// Pull pulls an image as soon as no other image is pulled, and returns when the pull has ended.
	Pull   func(ctx context.Context, reference string) error
	Cycles *metrics.Cycles
	Log    *zap.Logger
}

// Puller pulls images ahead for one term as the leader.
type Puller struct {
	Options
	loop *periodic.Loop
	on   atomic.Bool
}

// New returns a puller, which does nothing before [Puller.Apply]. It performs no I/O.
func New(o Options) *Puller {
	p := &Puller{Options: o}
	look := o.Cycles.Counting("prepull", p.look)
	p.loop = periodic.New("pulling images ahead", time.Hour, func(ctx context.Context) error {
		if !p.on.Load() {
			return nil
		}
		return look(ctx)
	}, o.Log)
	return p
}

// Apply changes the time between two looks, where 0 means never, and looks immediately: Configured may have changed,
// too.
func (p *Puller) Apply(interval time.Duration) {
	p.on.Store(interval > 0)
	if interval > 0 {
		p.loop.SetInterval(interval)
	}
	p.loop.Wake()
}

// Run looks for missing images and pulls them, when Apply is called and at every interval, until ctx ends.
func (p *Puller) Run(ctx context.Context) {
	if p.Images != nil {
		p.loop.Run(ctx)
	}
}

// look pulls the missing images, one after the other. A failed pull does not stop the others.
func (p *Puller) look(ctx context.Context) error {
	if p.Full() || p.Identity(ctx) != nil { // who finds these out logs them
		return nil
	}
	used, err := p.Store.SleepingImages(ctx, most)
	if err != nil {
		return err
	}
	wanted := p.Configured()
	for _, image := range used {
		if reference, err := p.Resolve(image); err == nil {
			wanted = append(wanted, reference)
		}
	}
	var errs []error
	seen := make(map[string]bool)
	for _, reference := range wanted {
		if seen[reference] || ctx.Err() != nil {
			continue
		}
		seen[reference] = true
		var missing *backend.MissingImageError
		if !errors.As(p.Images.Check(ctx, reference), &missing) {
			continue // it is there, or the engine is away
		}
		began := time.Now()
		if err := p.Pull(ctx, missing.Image); err != nil {
			errs = append(errs, err)
			continue
		}
		p.Log.Info("an image has been pulled ahead", zap.String(logkey.Image, missing.Image),
			zap.Duration(logkey.Duration, time.Since(began)))
	}
	return errors.Join(errs...)
}
