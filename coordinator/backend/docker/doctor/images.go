package doctor

import (
	"context"
	"errors"
	"strings"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
)

// checkDeclarations looks for configured images that declare volumes inside the home, or another HOME. Like a start, it
// loads each image without its volumes.
func (c checks) checkDeclarations(ctx context.Context) ([]check.Finding, error) {
	var found []check.Finding
	var missing *backend.MissingImageError
	for _, ref := range c.Images {
		d, err := c.images.Declared(ctx, ref)
		if errors.As(err, &missing) {
			continue // the check of images reports it
		}
		if err != nil {
			return nil, err
		}
		if d.Home != "" && d.Home != spec.HomePath {
			found = append(found, check.Warning("write ENV HOME="+spec.HomePath+" in its Dockerfile",
				"image %s declares the home %s: what its programs keep there is lost when the workspace sleeps", ref, d.Home))
		}
		volumes := strings.Join(d.InHome, ", ")
		switch _, err := c.images.ForWorkspace(ctx, ref); {
		case err != nil && (volumes == "" || !engine.Answered(ctx, err)):
			return nil, err
		case err != nil:
			found = append(found, check.Problem("remove that VOLUME from its Dockerfile",
				"no workspace starts with image %s: %v", ref, err))
		case volumes != "":
			found = append(found, check.OK("image %s declares the volume %s: it is a folder of the home here", ref, volumes))
		}
	}
	if len(found) == 0 {
		found = []check.Finding{check.OK("no image declares a volume inside the home, or another home")}
	}
	return found, nil
}
