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

// Images are the images that a user may choose, and whether any other reference is accepted
// as well.
type Images struct {
	Items []Image `json:"items"`
	Any   bool    `json:"any_reference"`
}

// ImagesOf returns the images of the catalogue, whose first is the default. Only administrators
// get the references, and may give any other.
func ImagesOf(images launch.Catalog, admin bool) Images {
	out := Images{make([]Image, len(images)), admin}
	for i, image := range images {
		out.Items[i] = Image{Name: image.Name, Description: image.Description, Default: i == 0}
		if admin {
			out.Items[i].Reference = image.Reference
		}
	}
	return out
}
