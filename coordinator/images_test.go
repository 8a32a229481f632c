package coordinator

import (
	"context"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/storagejob/contract"
)

// engineImages knows the size of one image. It answers once the test allows it.
type engineImages struct {
	backend.Images
	may   chan struct{}
	asked int
}

func (e *engineImages) Size(ctx context.Context, image string) (int64, error) {
	e.asked++
	select {
	case <-e.may:
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if image != "here:1" {
		return 0, &backend.MissingImageError{Image: image}
	}
	return 1000, nil
}

// TestSizesOfImages: an engine that does not answer delays a list of images by half a second at most, for any number
// of images. Its answers are valid for a minute.
func TestSizesOfImages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := &engineImages{may: make(chan struct{})}
		c := &Coordinator{backend: backend.Backend{Images: engine}}
		c.sizes.Age = time.Minute
		get := func(wait time.Duration, want map[string]int64, asked int) {
			t.Helper()
			begin := time.Now()
			if got := c.ImageSizes(t.Context(), []string{"here:1", "missing:1"}); !maps.Equal(got, want) {
				t.Errorf("got %v, want %v", got, want)
			}
			synctest.Wait()
			if took := time.Since(begin); took != wait || engine.asked != asked {
				t.Errorf("it took %s and %d questions so far, want %s and %d", took, engine.asked, wait, asked)
			}
		}
		get(imageSizeWait, nil, 2)
		close(engine.may)
		synctest.Wait()
		known := map[string]int64{"here:1": 1000}
		get(0, known, 2)
		<-time.After(time.Minute)
		get(0, known, 4)
		c.backend.Images = nil // as on Kubernetes
		get(0, nil, 4)
	})
}

// TestConfiguredImages: the images of the settings and, on Docker, the image of storage jobs are pulled ahead.
func TestConfiguredImages(t *testing.T) {
	catalog := launch.Catalog{{Name: "code", Reference: "code:1"}, {Name: "jupyter", Reference: "jupyter:7"}}
	for name, c := range map[string]struct {
		options Options
		want    []string
	}{
		"docker":     {Options{Docker: docker.Options{JobImage: "job:1"}}, []string{"code:1", "jupyter:7", "job:1"}},
		"default":    {Options{}, []string{"code:1", "jupyter:7", contract.DefaultImage}},
		"kubernetes": {Options{Kubernetes: &kubernetes.Options{}}, []string{"code:1", "jupyter:7"}},
	} {
		co := &Coordinator{opts: c.options}
		co.images.Store(&catalog)
		if got := co.configuredImages(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
