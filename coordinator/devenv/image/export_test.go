package image

import "context"

// Made returns an image with that file, whose Dockerfile is in the root folder.
func Made(name, content string) Image {
	return Image{name, ".", func(context.Context, string, string) (map[string][]byte, error) {
		return map[string][]byte{"file": []byte(content), "other": nil, "third": []byte("3")}, nil
	}}
}
