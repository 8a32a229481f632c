package identity

import (
	"cmp"
	"fmt"

	"github.com/codehub/gateway/coordinator/store"
)

// MismatchError says that a server is not the one that this installation recorded. Nothing may be concluded from its
// other answers, and nothing may be written or deleted there.
type MismatchError struct {
	Resource store.Resource
	// Expected is the recorded identity, or empty if none is recorded yet; Found is the identity of the server that
	// answers.
	Expected, Found string
}

// Error names the expected and the found identity, the possible meaning, and the remedy.
func (e *MismatchError) Error() string {
	what, cause := "the container backend", "It may be another host's engine (check the settings of docker and "+
		"DOCKER_HOST) or another cluster or namespace (check kubeconfig, context and namespace of backend "+
		"kubernetes), or its data folder was emptied or is not mounted. Workspaces that run are served; nothing is "+
		"started, stopped or deleted"
	if e.Resource == store.ResourceBucket {
		what, cause = "the bucket", "It may be another installation's bucket (check s3 endpoint, bucket and prefix), "+
			"or the store's data folder was emptied or is not mounted. Nothing is archived, restored or deleted"
	}
	return fmt.Sprintf("%s is not the one that this installation recorded: expected %s, found %s. %s until the "+
		"expected one is back. If the one that was found is right, an administrator accepts it: caddy "+
		"codehub accept %s",
		what, cmp.Or(e.Expected, "none with an owner"), e.Found, cause, e.Resource)
}
