package spec

import (
	"slices"
	"strings"
	"testing"

	"github.com/docker/docker/api/types/mount"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// A workspace's host name is never that of a server: it has a domain.
func TestHostnameHasADomain(t *testing.T) {
	const id = workspace.ID("0a1b2c3d-0000-4000-8000-000000000000")
	for name, want := range map[string]string{
		"": id.ContainerName(), "git": "git.ws-0a1b2c3d",
		strings.Repeat("x", 63):             strings.Repeat("x", 52) + ".ws-0a1b2c3d",
		strings.Repeat("x", 51) + "-longer": strings.Repeat("x", 51) + ".ws-0a1b2c3d",
	} {
		c := Workspace(Options{}, backend.StartSpec{ID: id, Hostname: name}, "net", Address{}, 0)
		if got := c.Config.Hostname; got != want || len(got) > maxHostname {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}

// TestAWorkspaceHasNoRights: regardless of the image's declarations (a user, volumes, an entry point), a workspace's
// container gets no capability, no device, no folder or socket of the host, and none of the host's namespaces.
func TestAWorkspaceHasNoRights(t *testing.T) {
	const id = workspace.ID("0a1b2c3d-0000-4000-8000-000000000000")
	for _, o := range []Options{{}, {Publish: PublishLoopback, MemoryBytes: 1 << 30, NanoCPUs: 1e9, PidsLimit: 10}} {
		c := Workspace(o, backend.StartSpec{ID: id, Image: "image", Command: []string{"run"}, Owner: "ann"}, "net", Address{}, 0)
		h := c.Host
		if h.Privileged || len(h.CapAdd) > 0 || !slices.Equal(h.CapDrop, []string{"ALL"}) || !slices.Equal(h.SecurityOpt, []string{"no-new-privileges"}) ||
			len(h.Devices)+len(h.DeviceRequests)+len(h.DeviceCgroupRules) > 0 || len(h.Sysctls) > 0 || len(h.GroupAdd) > 0 {
			t.Errorf("it has rights: %+v", h)
		}
		if len(h.Binds) > 0 || len(h.VolumesFrom) > 0 || len(h.Mounts) != 1 || h.Mounts[0].Type != mount.TypeVolume || h.Mounts[0].Target != HomePath {
			t.Errorf("it mounts %v %v %+v", h.Binds, h.VolumesFrom, h.Mounts)
		}
		if h.NetworkMode != "net" || h.PidMode != "" || h.IpcMode != "" || h.UTSMode != "" || h.UsernsMode != "" || h.CgroupnsMode != "" ||
			len(h.ExtraHosts)+len(h.Links) > 0 {
			t.Errorf("it is in a namespace of the host: %+v", h)
		}
		for _, bindings := range h.PortBindings {
			for _, b := range bindings {
				if b.HostIP != "127.0.0.1" {
					t.Errorf("it is published at %+v", b)
				}
			}
		}
	}
}
