// Package memory is a fake engine: a container backend that exists only in this process. It passes the conformance
// suite of package backendtest, as the real backends do. Tests of any package may import it, and then need no real
// engine. They can also use it for things that a real engine does not do on demand: it can fail, hang, or lose an
// object at one exact step.
//
// It owns nothing outside its own memory. Only tests may import it, and they must rely only on behaviour that the suite
// requires.
package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// These are the images of storage jobs, and of workspaces without an image of their own.
const (
	DefaultImage = "default:image"
	JobImage     = "storage:job"
)

// Engine holds the containers, volumes and jobs of all installations, as a real engine does. It outlives the backends
// that use it, so a test can replace a process. It is safe for concurrent use.
type Engine struct {
	mu       sync.Mutex                   // guards the other fields of this group
	contents                              // those of the engine that answers now
	watchers map[chan workspace.ID]string // the installation whose events each receives
	news     chan struct{}                // closed when a container prints or changes

	wg   sync.WaitGroup  // the work of jobs and the event streams
	quit context.Context // ends with the engine; it ends the jobs
	end  context.CancelFunc
}

// contents are the objects of one engine.
type contents struct {
	identity   string
	containers map[workspace.ID]*container
	volumes    map[workspace.ID]home
	jobs       map[workspace.ID][]*job
	missing    map[string]struct{} // images that must be pulled first
	disk       backend.Disk        // the result of Disk
	memory     backend.Memory      // the result of Memory
}

// newContents returns the contents of an engine that has all images and nothing else.
func newContents(identity string) contents {
	return contents{
		identity:   identity,
		containers: make(map[workspace.ID]*container),
		volumes:    make(map[workspace.ID]home),
		jobs:       make(map[workspace.ID][]*job),
		missing:    make(map[string]struct{}),
	}
}

// origin is what all objects have in common: the installation, the user who owns the workspace, the leader's term in
// which the object was created, an id that no other object ever has, and the time of creation.
type origin struct {
	owner, user, term, uid string
	created                time.Time
}

// container is a container of any installation. state is what observations return, and logs is the output of its
// program.
type container struct {
	origin
	state workspace.Container
	logs  string
	// thawed is the health of a frozen container before it was frozen.
	thawed workspace.Health
}

// home is a volume. opID is the operation that created it.
type home struct {
	origin
	opID  string
	usage backend.Usage // the result of Usage
	doubt string        // why it is unknown whether the volume will persist
}

// job is a storage job that runs or has ended. kill cancels the context of its work.
type job struct {
	origin
	state workspace.Job
	kill  context.CancelFunc
}

// NewEngine returns an empty engine with an identity of its own.
func NewEngine() *Engine {
	e := &Engine{contents: newContents("memory-" + uuid.NewString()), watchers: make(map[chan workspace.ID]string),
		news: make(chan struct{})}
	e.quit, e.end = context.WithCancel(context.Background())
	return e
}

// Close kills the jobs and waits until their work has returned. It also waits for the event streams, whose contexts the
// caller must have ended.
func (e *Engine) Close() {
	e.end()
	e.wg.Wait()
}

// Backend is one installation's view of an engine. Its exported fields are hooks that make it fail, block or behave
// like a certain image. A test must set them before the first call.
type Backend struct {
	// Before is called with the name of each method before the method does anything. If it returns an error, the method
	// returns that error and has no effect. It may block, and is called without the lock.
	Before func(ctx context.Context, method string, id workspace.ID) error
	// Work is the work of a storage job. ctx ends when the job is killed. It returns the size of the archive, or the
	// error with which the job fails. If it is nil, every job succeeds immediately.
	Work func(ctx context.Context, spec backend.JobSpec) (size int64, err error)
	// Container returns the started container, or the error of Start. If it is nil, every container is ready
	// immediately.
	Container func(spec backend.StartSpec) (workspace.Container, error)
	// Run runs a command in a container. If it is nil, every command prints nothing.
	Run func(ctx context.Context, command backend.Command, stdout, stderr io.Writer) (exitCode int)
	// Fetch is the work of Pull. If it is nil, every image is available immediately.
	Fetch func(ctx context.Context, image string, progress func(done, total int64)) error

	// Pool is the result of Addresses. A container with a slot has the address 127.0.0.1 and the slot as its port.
	Pool backend.Pool

	*Engine
	owner      string // the installation
	ownsEngine bool   // Close also closes the engine
}

// New returns the only backend of a new engine, for tests with a single process. Closing it also closes the engine.
func New() *Backend {
	b := NewEngine().Backend("memory")
	b.ownsEngine = true
	return b
}

// Backend returns a view of the engine for that installation. Two views of one installation behave like two processes.
func (e *Engine) Backend(installation string) *Backend {
	return &Backend{Engine: e, owner: installation}
}

// origin describes an object that the backend creates now.
func (b *Backend) origin(user, term string) origin {
	return origin{owner: b.owner, user: user, term: term, uid: uuid.NewString(), created: time.Now()}
}

// before calls Before, and fails if ctx has ended or the caller's lease has lapsed.
func (b *Backend) before(ctx context.Context, method string, id workspace.ID) error {
	if b.Before != nil {
		if err := b.Before(ctx, method, id); err != nil {
			return err
		}
	}
	return cmp.Or(ctx.Err(), backend.CheckLease(ctx))
}

// begin is like before, for methods about one workspace: it also checks the id.
func (b *Backend) begin(ctx context.Context, method string, id workspace.ID) error {
	if err := backend.CheckID(id); err != nil {
		return err
	}
	return b.before(ctx, method, id)
}

// changed sends an event to the watchers of the installation. It never blocks, because events are hints and may be
// lost. The caller holds the lock.
func (e *Engine) changed(owner string, id workspace.ID) {
	e.printed()
	for w, of := range e.watchers {
		if of != owner {
			continue
		}
		select {
		case w <- id:
		default: // events may be lost
		}
	}
}

// container returns the workspace's container, or nil. It fails if the container belongs to another installation. The
// caller holds the lock.
func (b *Backend) container(id workspace.ID) (*container, error) {
	k := b.containers[id]
	if k != nil && k.owner != b.owner {
		return nil, fmt.Errorf("container %s belongs to another installation", id.ContainerName())
	}
	return k, nil
}

// homeExists reports whether the workspace's volume exists. It fails if the volume belongs to another installation. The
// caller holds the lock.
func (b *Backend) homeExists(id workspace.ID) (bool, error) {
	v, ok := b.volumes[id]
	if ok && v.owner != b.owner {
		return false, fmt.Errorf("volume %s belongs to another installation", id.VolumeName())
	}
	return ok, nil
}

// noHome is the error for a missing home volume (SPEC 1, contract 6).
func noHome(id workspace.ID) error {
	return workspace.Fail(workspace.ReasonContainerWithoutVolume,
		fmt.Errorf("volume %s does not exist", id.VolumeName()))
}

// Containers implements [backend.Sensors]. It returns copies, which later changes do not affect.
func (b *Backend) Containers(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Container, error) {
	return list(ctx, b, "Containers", b.containers, ids, func(k *container) (workspace.Container, bool) {
		return k.state, k.owner == b.owner
	})
}

// Volumes implements [backend.Sensors].
func (b *Backend) Volumes(ctx context.Context, ids ...workspace.ID) (map[workspace.ID]workspace.Volume, error) {
	return list(ctx, b, "Volumes", b.volumes, ids, func(v home) (workspace.Volume, bool) {
		return workspace.Volume{OpID: v.opID, CreatedAt: v.created, Unknown: v.doubt}, v.owner == b.owner
	})
}

// Jobs implements [backend.Sensors]. A job that has ended is listed until DeleteJobs.
func (b *Backend) Jobs(ctx context.Context, ids ...workspace.ID) (map[workspace.ID][]workspace.Job, error) {
	return list(ctx, b, "Jobs", b.jobs, ids, func(all []*job) (own []workspace.Job, ok bool) {
		for _, j := range all {
			if j.owner == b.owner {
				own = append(own, j.state)
			}
		}
		return own, len(own) > 0
	})
}

// list implements the sensors. It converts the values for which own returns true: those of the caller's installation.
// If there are ids, it considers only these.
func list[V, W any](ctx context.Context, b *Backend, method string, all map[workspace.ID]V, ids []workspace.ID,
	own func(V) (W, bool)) (map[workspace.ID]W, error) {
	if err := b.before(ctx, method, ""); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	out := make(map[workspace.ID]W)
	add := func(id workspace.ID, v V) {
		if w, ok := own(v); ok {
			out[id] = w
		}
	}
	if len(ids) == 0 {
		for id, v := range all {
			add(id, v)
		}
	}
	for _, id := range ids {
		if v, ok := all[id]; ok {
			add(id, v)
		}
	}
	return out, nil
}

// Start implements [backend.Actuators]. As a real engine must (SPEC 12.4), it refuses without a volume or during a job,
// and replaces an exited container.
func (b *Backend) Start(ctx context.Context, spec backend.StartSpec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	if err := b.before(ctx, "Start", spec.ID); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	present, err := b.container(spec.ID)
	if err != nil {
		return err
	}
	// Start is idempotent: it does not change a running container, even of another image.
	if present != nil && present.state.Running && !present.state.StartAgain {
		if present.frozen() {
			present.thaw()
			b.changed(b.owner, spec.ID)
		}
		return nil
	}
	if exists, err := b.homeExists(spec.ID); err != nil {
		return err
	} else if !exists {
		return noHome(spec.ID)
	}
	for _, j := range b.jobs[spec.ID] {
		if j.state.State == workspace.JobRunning {
			return fmt.Errorf("starting %s: a storage job uses its volume", spec.ID)
		}
	}
	if err := b.checkImage(cmp.Or(spec.Image, DefaultImage)); err != nil {
		return err
	}
	// Nothing listens on this port: most tests send no requests.
	state := workspace.Container{
		Running: true, Ready: true, Endpoint: "127.0.0.1:1", StartedAt: time.Now(), Volume: true,
	}
	if spec.Slot != 0 {
		state.Endpoint = fmt.Sprintf("127.0.0.1:%d", spec.Slot)
		for id, k := range b.containers {
			if id != spec.ID && k.state.Running && k.state.Endpoint == state.Endpoint {
				return fmt.Errorf("starting %s at %s: %w", spec.ID, state.Endpoint, backend.ErrAddressInUse)
			}
		}
	}
	if b.Container != nil {
		if state, err = b.Container(spec); err != nil {
			return err
		}
	}
	state.BasePath = spec.BasePath
	b.containers[spec.ID] = &container{origin: b.origin(spec.Owner, spec.Term), state: state}
	b.changed(b.owner, spec.ID)
	return nil
}

// Addresses is the function of that name in [backend.Backend].
func (b *Backend) Addresses(ctx context.Context) (backend.Pool, error) {
	return b.Pool, b.before(ctx, "Addresses", "")
}

// Delete implements [backend.Actuators]. It keeps the volume.
func (b *Backend) Delete(ctx context.Context, id workspace.ID) error {
	if err := b.begin(ctx, "Delete", id); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if _, err := b.container(id); err != nil {
		return err
	}
	delete(b.containers, id)
	b.changed(b.owner, id)
	return nil
}

// Provision implements [backend.Actuators]. It does nothing if the operation's volume already exists.
func (b *Backend) Provision(ctx context.Context, spec backend.VolumeSpec) error {
	if err := spec.Validate(); err != nil {
		return err
	}
	id, opID := spec.ID, spec.OpID
	if err := b.before(ctx, "Provision", id); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	exists, err := b.homeExists(id)
	switch {
	case err != nil:
		return err
	case exists && b.volumes[id].opID == opID:
		return nil
	case exists:
		return workspace.Fail(workspace.ReasonConflict, fmt.Errorf("volume %s was made by operation %q, not %q",
			id.VolumeName(), b.volumes[id].opID, opID))
	}
	b.volumes[id] = home{origin: b.origin(spec.Owner, ""), opID: opID}
	b.changed(b.owner, id)
	return nil
}

// DeleteVolume implements [backend.Actuators]. It keeps a volume of another operation, without an error. As a real
// engine does, it refuses while a container or a job exists, even an ended one.
func (b *Backend) DeleteVolume(ctx context.Context, id workspace.ID, opID string) error {
	if err := b.begin(ctx, "DeleteVolume", id); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if exists, err := b.homeExists(id); err != nil || !exists || b.volumes[id].opID != opID {
		return err
	}
	if b.containers[id] != nil || len(b.jobs[id]) > 0 {
		return fmt.Errorf("deleting volume %s: %w", id.VolumeName(), backend.ErrVolumeInUse)
	}
	delete(b.volumes, id)
	b.changed(b.owner, id)
	return nil
}

// checkImage fails if the engine lacks the image. The caller holds the lock.
func (b *Backend) checkImage(image string) error {
	if _, missing := b.missing[image]; missing {
		return &backend.MissingImageError{Image: image}
	}
	return nil
}

// Check implements [backend.Images].
func (b *Backend) Check(ctx context.Context, image string) error {
	if err := b.before(ctx, "Check", ""); err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.checkImage(cmp.Or(image, DefaultImage))
}

// imageSize is the size of every available image, in bytes.
const imageSize = 100e6

// Size implements [backend.Images].
func (b *Backend) Size(ctx context.Context, image string) (int64, error) {
	if err := b.before(ctx, "Size", ""); err != nil {
		return 0, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if err := b.checkImage(cmp.Or(image, DefaultImage)); err != nil {
		return 0, err
	}
	return imageSize, nil
}

// Pull implements [backend.Images] with [Backend.Fetch].
func (b *Backend) Pull(ctx context.Context, image string, progress func(done, total int64)) error {
	if err := b.before(ctx, "Pull", ""); err != nil {
		return err
	}
	image = cmp.Or(image, DefaultImage)
	if b.Fetch != nil {
		if err := b.Fetch(ctx, image, progress); err != nil {
			return err
		}
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.missing, image)
	return nil
}

// Identity implements [backend.Core].
func (b *Backend) Identity(ctx context.Context) (string, error) {
	if err := b.before(ctx, "Identity", ""); err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.identity, nil
}

// Logs implements [backend.Inspector]. Deleting the container deletes its output.
func (b *Backend) Logs(ctx context.Context, id workspace.ID, lines int) (string, error) {
	if err := b.begin(ctx, "Logs", id); err != nil {
		return "", err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	k, err := b.container(id)
	if err != nil || k == nil {
		return "", fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrNotFound)
	}
	return k.logs[lastLines(k.logs, lines):], nil
}

// lastLines returns the offset of the last lines, or of the text if it has fewer. The last line may lack its newline.
func lastLines(text string, lines int) int {
	at := len(text)
	for rest := strings.TrimSuffix(text, "\n"); lines > 0 && at > 0; lines-- {
		at = strings.LastIndexByte(rest, '\n') + 1
		rest = rest[:max(0, at-1)]
	}
	return at
}

// Follow implements [backend.Inspector].
func (b *Backend) Follow(ctx context.Context, id workspace.ID, lines int, to io.Writer) error {
	if err := b.begin(ctx, "Follow", id); err != nil {
		return err
	}
	b.mu.Lock()
	k, err := b.container(id)
	if err != nil || k == nil {
		b.mu.Unlock()
		return fmt.Errorf("container %s: %w", id.ContainerName(), backend.ErrNotFound)
	}
	for at := lastLines(k.logs, lines); ; b.mu.Lock() {
		text, news := k.logs[at:], b.news
		ended := !k.state.Running || b.containers[id] != k
		b.mu.Unlock()
		at += len(text)
		if _, err := io.WriteString(to, text); err != nil || ended {
			return err
		}
		select {
		case <-news:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// printed wakes the followers of logs. The caller holds the lock.
func (e *Engine) printed() {
	close(e.news)
	e.news = make(chan struct{})
}

// Events implements [backend.Core]. The stream ends only with its context. A slow reader loses events.
func (b *Backend) Events(ctx context.Context) (<-chan workspace.ID, error) {
	if err := b.before(ctx, "Events", ""); err != nil {
		return nil, err
	}
	// changed writes to in without blocking. The goroutine forwards the events to out, so only this stream waits for
	// its reader.
	in, out := make(chan workspace.ID, 64), make(chan workspace.ID)
	b.mu.Lock()
	b.watchers[in] = b.owner
	b.mu.Unlock()
	b.wg.Go(func() {
		defer close(out)
		defer func() {
			b.mu.Lock()
			delete(b.watchers, in)
			b.mu.Unlock()
		}()
		for {
			select {
			case id := <-in:
				select {
				case out <- id:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	})
	return out, nil
}

// Close closes the engine if [New] created it for this backend only. Otherwise it does nothing.
func (b *Backend) Close() error {
	if b.ownsEngine {
		b.Engine.Close()
	}
	return nil
}

// ErrRefused is an error for tests to return from [Backend.Before]. It has no reason, so it counts as ActionFailed.
var ErrRefused = errors.New("refused for a test")

// LostError is the error of work that has ended with an unknown result.
type LostError struct{ Message string }

func (e *LostError) Error() string { return e.Message }

// Parts returns the backend as its consumers see it, with images, freezing and memory. It has addresses if there is a
// [Backend.Pool].
func (b *Backend) Parts() backend.Backend {
	parts := backend.Backend{Core: b, Images: b, Freezer: b, Memory: b.Memory, LocalHomes: true}
	if b.Pool.Size > 0 {
		parts.Addresses = b.Addresses
	}
	return parts
}
