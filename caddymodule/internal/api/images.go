package api

import (
	"net/http"

	v1 "github.com/codehub/gateway/caddymodule/internal/api/v1"
)

// listImages is GET /images. It lists the images that the user may choose, and says whether the user may also name any
// other reference.
func (c *call) listImages() error {
	images := c.Service.Images()
	sizes := c.Containers.ImageSizes(c.r.Context(), images.References())
	return sendJSON(c.w, http.StatusOK, v1.ImagesOf(images, sizes, c.user.Admin()))
}
