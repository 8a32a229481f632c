package doctor

import "strings"

// Right is one right of an account.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Name, if set, is the only object that the right covers; that object is not in a namespace.
	Name string
}

// String returns the right in the usual form: "patch batch/jobs".
func (r Right) String() string {
	text := r.Verb + " "
	if r.Group != "" {
		text += r.Group + "/"
	}
	text += r.Resource
	if r.Subresource != "" {
		text += "/" + r.Subresource
	}
	if r.Name != "" {
		text += " " + r.Name
	}
	return text
}

// rules are the rights for the backend's requests in the namespace of the workspaces, and thus the chart's Role. Tests
// compare it with the requests of the conformance suite and with the chart.
var rules = []struct{ group, resources, verbs string }{
	{"", "pods persistentvolumeclaims", "create delete get list patch watch"},
	{"", "pods/log", "get"},
	{"", "pods/exec", "create get"},
	{"batch", "jobs", "create delete get list patch watch"},
	{"", "secrets", "create delete get patch"},
	{"networking.k8s.io", "networkpolicies", "create delete get list patch"},
	{"", "resourcequotas", "list"},
	{"discovery.k8s.io", "endpointslices", "list"},
}

// Rules returns the rights that the backend needs. All are in the namespace of the workspaces, except for reading one
// other namespace, whose uid identifies the cluster.
func Rules() []Right {
	var all []Right
	for _, r := range rules {
		for _, resource := range strings.Fields(r.resources) {
			resource, sub, _ := strings.Cut(resource, "/")
			for _, verb := range strings.Fields(r.verbs) {
				all = append(all, Right{Verb: verb, Group: r.group, Resource: resource, Subresource: sub})
			}
		}
	}
	return append(all, Right{Verb: "get", Resource: "namespaces", Name: "kube-system"})
}
