package v1

import (
	"github.com/codehub/gateway/coordinator/launch"
)

// Image is an image that users may choose.
type Image struct {
	// Name is the value for a workspace's image_ref.
	Name string `json:"name"`
	// The name and text to show people, and one of the dashboard's pictures, such as "notebook"; null
	// if not set.
	Title       *string `json:"title"`
	Description *string `json:"description"`
	Icon        *string `json:"icon"`
	// Its size in bytes where workspaces run; null if it is absent there or its size is not known.
	Size *int64 `json:"size_bytes"`
	// Git is true for an image that clones the git_url of a new workspace.
	Git bool `json:"git"`
	// Default is true for the image of workspaces whose image_ref is null.
	Default bool `json:"default"`
	// Reference is the image behind the name, for administrators only.
	Reference string `json:"reference,omitempty"`
}

// Images are the images that a user may choose, and whether any other reference is accepted
// as well.
type Images struct {
	Items []Image `json:"items"`
	Any   bool    `json:"any_reference"`
}

// ImagesOf returns the images of the catalogue, whose first is the default, with the sizes that are known by
// reference. Only administrators see the references, and may use any other.
func ImagesOf(images launch.Catalog, sizes map[string]int64, admin bool) Images {
	out := Images{make([]Image, len(images)), admin}
	for i, image := range images {
		out.Items[i] = Image{
			Name: image.Name, Title: orNull(image.Title), Description: orNull(image.Description),
			Icon: orNull(image.Icon), Git: image.Git, Default: i == 0,
		}
		if size, known := sizes[image.Reference]; known {
			out.Items[i].Size = &size
		}
		if admin {
			out.Items[i].Reference = image.Reference
		}
	}
	return out
}
