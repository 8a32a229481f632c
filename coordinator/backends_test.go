package coordinator

import (
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
)

// The parts of the coordinator that depend on the backend belong to the one backend of the installation.
func TestOptionsOfTheBackend(t *testing.T) {
	onDocker := Options{Docker: docker.Options{Installation: "a", Image: "one", Port: 1}}
	onKubernetes := Options{Kubernetes: &kubernetes.Options{Spec: spec.Options{Installation: "b", Image: "two", Port: 2}}}
	for _, c := range []struct {
		options                   Options
		name, installation, image string
		port                      int
	}{
		{onDocker, "docker", "a", "one", 1},
		{onKubernetes, "kubernetes", "b", "two", 2},
	} {
		o := c.options
		image, port := o.defaultImage()
		if o.BackendName() != c.name || o.Installation() != c.installation || image != c.image || port != c.port {
			t.Errorf("%s: %s, installation %s, image %s:%d", c.name, o.BackendName(), o.Installation(), image, port)
		}
		o.Archive.Endpoint, o.Archive.JobEndpoint = "http://127.0.0.1:9", "http://store:9"
		o.Wrap.Backend = func(to http.RoundTripper) http.RoundTripper { return to }
		o = o.withDefaults()
		if o.Kubernetes != nil && (o.Kubernetes.Transport == nil || o.Kubernetes.Spec.Store != "http://store:9") ||
			o.Kubernetes == nil && (o.Docker.Transport == nil || o.Docker.Store != "http://store:9") {
			t.Errorf("%s does not get its traffic wrapped, or the store: %+v", c.name, o)
		}
	}
	if k := onKubernetes.Kubernetes; k.Transport != nil || k.Spec.Store != "" {
		t.Error("the caller's options are changed")
	}
}

func TestOneBackend(t *testing.T) {
	o := Options{Kubernetes: &kubernetes.Options{Spec: spec.Options{Installation: "a", Image: "one"}}}
	o.Archive.Endpoint = "http://store:9"
	if err := o.withDefaults().validateBackend(); err != nil {
		t.Error(err)
	}
	both := o
	both.Docker.Image = "two"
	if err := both.withDefaults().validateBackend(); err == nil || !strings.Contains(err.Error(), "Docker or Kubernetes") {
		t.Errorf("both backends: %v", err)
	}
	// In a Pod, the loopback address is the Pod itself in any network.
	o.Archive.Endpoint = "http://localhost:9"
	if err := o.withDefaults().validateBackend(); err == nil || !strings.Contains(err.Error(), "s3 job_endpoint") {
		t.Errorf("a store on the loopback interface: %v", err)
	}
}
