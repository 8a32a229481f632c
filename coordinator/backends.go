package coordinator

import (
	"cmp"
	"errors"
	"net"
	"net/url"
	"reflect"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	"github.com/codehub/gateway/coordinator/setting"
)

// The names of the backends, as they stand in the database and in the settings.
const (
	BackendDocker     = "docker"
	BackendKubernetes = "kubernetes"
)

// BackendName is the name of the container backend, one of the Backend constants.
func (o Options) BackendName() string {
	if o.Kubernetes != nil {
		return BackendKubernetes
	}
	return BackendDocker
}

// Installation is the name of the installation on its container backend.
func (o Options) Installation() string {
	if o.Kubernetes != nil {
		return o.Kubernetes.Spec.Installation
	}
	return o.Docker.Installation
}

// NewBackend returns the container backend. It does not contact the backend.
func (o Options) NewBackend() (backend.Backend, error) {
	if o.Kubernetes != nil {
		return kubernetes.New(o.Cluster())
	}
	return docker.New(o.Engine())
}

// Engine returns the options of the container engine, completed with how storage jobs reach the object store. A command
// that looks at the engine must know the same.
func (o Options) Engine() docker.Options {
	d := o.Docker
	d.Store = o.jobStore()
	if d.JobNetwork == "" && onLoopback(d.Store) {
		// A job has a network namespace of its own, in which the loopback address is the job itself and not the store.
		d.JobNetwork = "host"
	}
	return d
}

// Cluster returns the same for Kubernetes, which must be the backend.
func (o Options) Cluster() kubernetes.Options {
	k := *o.Kubernetes
	k.Spec.Store = o.jobStore()
	return k
}

// jobStore returns the address under which storage jobs reach the object store.
func (o Options) jobStore() string { return cmp.Or(o.Archive.JobEndpoint, o.Archive.Endpoint) }

// validateBackend reports everything that is wrong with the container backend.
func (o Options) validateBackend() error {
	if o.Kubernetes == nil {
		return o.Docker.Validate()
	}
	err := o.Kubernetes.Validate()
	if d := o.Docker; !reflect.DeepEqual(d, docker.Options{}) {
		err = errors.Join(err, setting.Errorf("backend",
			"an installation has one, Docker or Kubernetes: leave the options of the other out"))
	}
	if store := o.jobStore(); onLoopback(store) {
		err = errors.Join(err, setting.Errorf("s3 job_endpoint", "%s is the storage job's own Pod: "+
			"set s3 job_endpoint to the address of the object store in the cluster", store))
	}
	return err
}

// defaultImage is the image of workspaces that do not name one, with its port.
func (o Options) defaultImage() (image string, port int) {
	if o.Kubernetes != nil {
		return o.Kubernetes.Spec.Image, o.Kubernetes.Spec.Port
	}
	return o.Docker.Image, o.Docker.Port
}

// onLoopback reports whether the address of a URL is this machine.
func onLoopback(endpoint string) bool {
	u, err := url.Parse(endpoint)
	if err != nil {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
}
