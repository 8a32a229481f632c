// Package launch defines how a workspace's container is started (SPEC 7, 8): the image, port and command that follow
// from the configured images, and the environment and host name that tell the container about itself.
//
// It owns the list of images, the rule that distinguishes an image's name from a reference, and the variables
// CODEHUB_…. It is pure: it must not start anything, or decide who may choose which image (package service).
package launch

import (
	"fmt"
	"strings"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Site is where people reach the installation's workspaces.
type Site struct {
	// PublicURL is the address of the main site, such as "https://code.example.com". If it is empty, the address is
	// unknown, and workspaces are not told their addresses.
	PublicURL string
	// Domain is the domain below which workspaces have their own hosts.
	Domain string
	// PerHost says that people open workspaces on these hosts instead of below /w/{id}/ of the main site.
	PerHost bool
}

// The environment of every workspace's container. The base path begins and ends with a slash: it is "/" for an
// application that serves at the root of its address.
const (
	EnvID       = "CODEHUB_WORKSPACE_ID"
	EnvName     = "CODEHUB_WORKSPACE_NAME"
	EnvURL      = "CODEHUB_WORKSPACE_URL"
	EnvBasePath = "CODEHUB_WORKSPACE_BASE_PATH"
	// EnvGitURL is the address of the repository that the image clones; it is not set if there is none.
	EnvGitURL = "CODEHUB_GIT_URL"
)

// pathPrefix starts the path of every workspace on the main site.
const pathPrefix = "/w/"

// Spec returns how the container of w is started. If the workspace names an image that is no longer in the catalog, the
// error's reason is [workspace.ReasonImagePullFailed]. Spec takes no other image, because that would run programs on
// the files that their owner did not choose.
func Spec(c Catalog, s Site, w workspace.Workspace) (backend.StartSpec, error) {
	image, err := c.resolve(w.ImageRef)
	if err != nil {
		return backend.StartSpec{}, workspace.Fail(workspace.ReasonImagePullFailed, err)
	}
	spec := backend.StartSpec{
		ID: w.ID, Owner: w.OwnerID, Image: image.Reference, Port: image.Port, Hostname: hostname(w),
	}
	basePath := "/"
	if image.KeepPrefix && !s.PerHost {
		spec.BasePath = pathPrefix + string(w.ID)
		basePath = spec.BasePath + "/"
	}
	env := [][2]string{{EnvID, string(w.ID)}, {EnvName, w.Name}, {EnvURL, s.url(w.ID)}, {EnvBasePath, basePath}, {EnvGitURL, w.GitURL}}
	expand := make([]string, 0, 2*len(env))
	for _, e := range env {
		expand = append(expand, "$("+e[0]+")", e[1])
		if e[1] != "" {
			spec.Env = append(spec.Env, e[0]+"="+e[1])
		}
	}
	// One pass: a name that looks like a variable stays as it is.
	replacer := strings.NewReplacer(expand...)
	for _, word := range image.Command {
		spec.Command = append(spec.Command, replacer.Replace(word))
	}
	return spec, nil
}

// url returns the address at which people open a workspace, or "" if unknown.
func (s Site) url(id workspace.ID) string {
	scheme, rest, ok := strings.Cut(strings.TrimSuffix(s.PublicURL, "/"), "://")
	switch {
	case !ok:
		return ""
	case !s.PerHost:
		return scheme + "://" + rest + pathPrefix + string(id) + "/"
	}
	authority, _, _ := strings.Cut(rest, "/")
	port := ""
	if at := strings.LastIndexByte(authority, ':'); at > strings.LastIndexByte(authority, ']') {
		port = authority[at:]
	}
	return fmt.Sprintf("%s://%s.%s%s/", scheme, id.ContainerName(), s.Domain, port)
}
