// Package cluster connects to a Kubernetes cluster, and knows which one it is (SPEC 2).
//
// It owns the connection, the meaning of its errors, and the question for the cluster's identity. It also owns the
// caches that follow an installation's objects by watches, so that listings cost no request. It must not know what the
// objects are for.
package cluster

import (
	"net/http"
)

// Options describe how to reach the cluster.
type Options struct {
	// Kubeconfig is the path of a file. Empty means the service account of the Pod that this process runs in, or else
	// KUBECONFIG and ~/.kube/config, like Kubernetes' own tools. Context is one of the file's contexts; empty means the
	// current one.
	Kubeconfig, Context string
	// Namespace is the namespace of all objects. Empty means the namespace of the context or of the service account.
	Namespace string
	// Transport, if set, wraps the client's transport, for tests and tracing.
	Transport func(http.RoundTripper) http.RoundTripper `json:"-"`
}
