package v1

import (
	"github.com/codehub/gateway/coordinator/launch"
)

// Image is an image that users may choose.
type Image struct {
	// Name is what image_ref of a workspace is.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Default is true for the image of workspaces whose image_ref is null.
	Default bool `json:"default"`
	// Reference is what stands behind the name, for administrators only.
	Reference string `json:"reference,omitempty"`
}

// ImagesOf returns the images of the catalogue, whose first is the default. Only administrators
// get the references.
func ImagesOf(images launch.Catalog, admin bool) []Image {
	out := make([]Image, len(images))
	for i, image := range images {
		out[i] = Image{Name: image.Name, Description: image.Description, Default: i == 0}
		if admin {
			out[i].Reference = image.Reference
		}
	}
	return out
}
