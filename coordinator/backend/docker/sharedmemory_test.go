package docker_test

import (
	"strconv"
	"testing"

	"github.com/codehub/gateway/coordinator/backend/docker"
)

// TestSharedMemory: programs may share half of the workspace's memory, and shared memory counts as its memory.
func TestSharedMemory(t *testing.T) {
	t.Parallel()
	const memory, shared = 256 << 20, 100 << 20
	r := newReal(t, func(o *docker.Options) { o.MemoryBytes = memory })
	id := r.start("")
	r.sh(id, "dd if=/dev/zero of=/dev/shm/x bs=1M count="+strconv.Itoa(shared>>20))
	if got := r.sh(id, "df -k /dev/shm | tail -1 | tr -s ' ' | cut -d ' ' -f 2"); got != strconv.Itoa(memory/2>>10) {
		t.Errorf("/dev/shm holds %s KiB, want half of %d bytes", got, memory)
	}
	if s, err := r.backend.Stats(t.Context(), id); err != nil || s.Memory < shared {
		t.Errorf("%+v, %v, want the memory that is shared in it", s, err)
	}
}

// TestSharedMemoryWithoutALimit: if the workspace's memory has no limit, programs may share half of the host's memory.
func TestSharedMemoryWithoutALimit(t *testing.T) {
	t.Parallel()
	r := newReal(t)
	id := r.start("")
	r.sh(id, "dd if=/dev/zero of=/dev/shm/x bs=1M count=100")
	info, err := r.api.Info(t.Context())
	r.must(err)
	c, err := r.api.ContainerInspect(t.Context(), id.ContainerName())
	r.must(err)
	if got := c.HostConfig.ShmSize; got != info.MemTotal/2 {
		t.Errorf("/dev/shm holds %d bytes, the host has %d", got, info.MemTotal)
	}
}
