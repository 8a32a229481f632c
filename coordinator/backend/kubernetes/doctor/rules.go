package doctor

import "strings"

// Right is one thing that an account may do.
type Right struct {
	Verb, Group, Resource, Subresource string
	// Name is the only object that is meant; it is not in a namespace.
	Name string
}

// String is the right as people write it: "patch batch/jobs".
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

// rules is what the backend does in the namespace of the workspaces, and so what the chart's
// Role allows. Tests hold it against the requests that the conformance suite makes, and the
// chart against it.
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

// Rules are the rights that the backend needs, and uses. All are in the namespace of the
// workspaces, but for reading one other, whose uid tells the cluster from any other one.
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
