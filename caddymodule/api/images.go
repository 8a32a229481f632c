package api

import "net/http"

// imageBody is an image that users may choose.
type imageBody struct {
	// Name is what image_ref of a workspace is.
	Name        string `json:"name"`
	Description string `json:"description"`
	// Default is true for the image of workspaces whose image_ref is null.
	Default bool `json:"default"`
	// Reference is what stands behind the name, for administrators only.
	Reference string `json:"reference,omitempty"`
}

// listImages is GET /images: the images that the user may choose, and whether any other
// reference is accepted as well.
func (c *call) listImages() error {
	answer := struct {
		Items []imageBody `json:"items"`
		Any   bool        `json:"any_reference"`
	}{Items: []imageBody{}, Any: c.user.Admin()}
	for i, image := range c.Service.Images() {
		body := imageBody{Name: image.Name, Description: image.Description, Default: i == 0}
		if c.user.Admin() {
			body.Reference = image.Reference
		}
		answer.Items = append(answer.Items, body)
	}
	return sendJSON(c.w, http.StatusOK, answer)
}
