// Package cluster connects to a Kubernetes cluster, and knows which one it is (SPEC 2).
//
// It owns the connection, what its errors mean, and the question for the cluster's identity. It
// owns the caches that follow an installation's objects by watches, so that looking costs no
// request. It must not know what the objects are for.
package cluster

import (
	"net/http"
)

// Options say where the cluster is.
type Options struct {
	// Kubeconfig is a file. Empty means the service account of the Pod that this process runs in,
	// or else KUBECONFIG and ~/.kube/config, as Kubernetes' own tools do. Context is one of its
	// contexts; empty means the current one.
	Kubeconfig, Context string
	// Namespace is where everything is; empty means the namespace of the context or of the
	// service account.
	Namespace string
	// Transport, if set, wraps the client's transport, for tests and tracing.
	Transport func(http.RoundTripper) http.RoundTripper `json:"-"`
}
