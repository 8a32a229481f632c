package v1

import (
	"github.com/codehub/gateway/coordinator/launch"
)

// Image is an image that users may choose.
type Image struct {
	// Name is what image_ref of a workspace is.
	Name string `json:"name"`
	// What to show people: a name and a text, and one of the pictures that the dashboard has, such as
	// "notebook"; null where the settings say nothing.
	Title       *string `json:"title"`
	Description *string `json:"description"`
	Icon        *string `json:"icon"`
	// How many bytes it takes up where workspaces run; null while it is not there, or where that is not known.
	Size *int64 `json:"size_bytes"`
	// Git is true for an image that clones the git_url of a new workspace.
	Git bool `json:"git"`
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

// ImagesOf returns the images of the catalogue, whose first is the default, with the sizes that are known by
// reference. Only administrators get the references, and may give any other.
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
