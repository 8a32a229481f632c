package spec

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/go-connections/nat"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// HomePath is the mount point of the home volume in a workspace's container.
const HomePath = workspace.Home

// loopback is the address of ports published with [PublishLoopback].
const loopback = "127.0.0.1"

// Container describes a container to create.
type Container struct {
	Config  *container.Config
	Host    *container.HostConfig
	Network *network.NetworkingConfig // nil lets the engine choose the address
}

// Workspace describes the container of a workspace: without capabilities, without new privileges, with the configured
// limits. It sets no restart policy, because only the coordinator decides what runs.
//
// The size of /dev/shm is half of the memory that the container may use, in bytes, as on Linux. Its content counts as
// the workspace's memory. For 0, the engine uses its own default of 64 MiB.
func Workspace(o Options, s backend.StartSpec, netID string, at Address, memory int64) Container {
	initProcess := true
	port := strconv.Itoa(cmp.Or(s.Port, o.Port))
	c := &container.Config{
		Image: cmp.Or(s.Image, o.Image), Cmd: s.Command, Env: s.Env,
		Hostname: hostname(s), Labels: o.Labels(s.ID, KindWorkspace),
	}
	c.Labels[LabelPort] = port
	// Every label gets a value here, even if it is empty, so that labels of the image with the same names have no effect.
	c.Labels[LabelOwner], c.Labels[LabelBasePath], c.Labels[LabelOp], c.Labels[LabelJob] = s.Owner, s.BasePath, "", ""
	h := &container.HostConfig{
		Init:        &initProcess, // workspaces run several processes, which must be reaped
		NetworkMode: container.NetworkMode(netID),
		CapDrop:     []string{"ALL"},
		SecurityOpt: []string{"no-new-privileges"},
		Resources:   container.Resources{Memory: o.MemoryBytes, NanoCPUs: o.NanoCPUs, PidsLimit: orNil(o.PidsLimit)},
		LogConfig:   logging(),
		Mounts:      []mount.Mount{homeMount(o, s.ID, HomePath, false)},
		StorageOpt:  SizeOption(o.DiskBytes),
		ShmSize:     memory / 2,
	}
	if o.Publish == PublishLoopback {
		inside := nat.Port(port + "/tcp")
		c.ExposedPorts = nat.PortSet{inside: {}}
		h.PortBindings = nat.PortMap{inside: {{HostIP: loopback, HostPort: at.port}}}
	}
	made := withHash(Container{c, h, at.network(netID)})
	made.Config.Labels[LabelTerm] = s.Term // not part of the hash: the container of any term is fine
	return made
}

// maxHostname is the longest host name that Linux accepts.
const maxHostname = 64

// hostname returns the host name of a workspace, in its own domain. The engine's name server resolves the host names of
// all containers for each container on the network. Without the domain, a workspace named git would hide a server with
// that name.
func hostname(s backend.StartSpec) string {
	if s.Hostname == "" {
		return s.ID.ContainerName()
	}
	domain := "." + s.ID.ContainerName()[:len("ws-01234567")]
	return strings.TrimRight(s.Hostname[:min(len(s.Hostname), maxHostname-len(domain))], "-") + domain
}

// jobPids bounds the processes and threads of a job.
const jobPids = 256

// jobCapabilities are the capabilities of root that a job keeps. An archive job reads files and folders without read
// permission, and changes nothing. A restore does more: it sets owners (CHOWN), writes in folders of any owner
// (DAC_OVERRIDE), sets the modes, times and attributes of files that it has given to other users (FOWNER), keeps the
// setgid bit of files of other groups (FSETID), and sets the capabilities of programs (SETFCAP).
var jobCapabilities = map[workspace.JobKind][]string{
	workspace.JobArchive: {"DAC_READ_SEARCH"},
	workspace.JobRestore: {"CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "SETFCAP"},
}

// jobPriority is a job's share of the processors and of the disk when others want them, too. A workspace has 1024 and
// 500. A job may use everything that is idle. An archive job has time and yields. A user waits for a restore, so a
// restore has the same share as a workspace. Some engines cannot apply a weight to the disk, for lack of a cgroup
// controller or of an I/O scheduler with weights. These engines warn and ignore the weight.
var jobPriority = map[workspace.JobKind]struct {
	cpuShares int64
	ioWeight  uint16
}{
	workspace.JobArchive: {256, 100},
	workspace.JobRestore: {1024, 500},
}

// Job describes the container of a storage job. It has only the rights that a job needs: a read-only root file system,
// a few capabilities, bounded memory and threads. It can write only to a scratch volume and, for a restore, to the
// home. The description contains no secret: the job's grant is added later, as a file in the scratch volume.
func Job(o Options, s backend.JobSpec, network string) Container {
	labels := Owned(o.Labels(s.ID, KindJob), s.Owner)
	labels[LabelOp], labels[LabelJob], labels[LabelTerm] = s.OpID, string(s.Kind), s.Term
	pids, initProcess := int64(jobPids), true
	home := homeMount(o, s.ID, contract.DataPath, true) // no copy: the image's own files must never get into a home
	home.ReadOnly = s.Kind == workspace.JobArchive
	return Container{
		Config: &container.Config{
			Image: o.JobImage, Cmd: []string{s.Command()}, Env: s.Env,
			User: "0:0", Labels: labels, // root, because a home's files may have any owner
		},
		Host: &container.HostConfig{
			Init:           &initProcess,
			NetworkMode:    container.NetworkMode(network),
			CapDrop:        []string{"ALL"},
			CapAdd:         jobCapabilities[s.Kind],
			SecurityOpt:    []string{"no-new-privileges"},
			ReadonlyRootfs: true,
			Resources: container.Resources{
				Memory: jobMemory, PidsLimit: &pids,
				CPUShares: jobPriority[s.Kind].cpuShares, BlkioWeight: jobPriority[s.Kind].ioWeight,
			},
			LogConfig: logging(),
			Mounts: []mount.Mount{
				home,
				{Type: mount.TypeVolume, Target: contract.ScratchPath, VolumeOptions: &mount.VolumeOptions{
					Labels: o.Labels(s.ID, KindScratch),
				}},
			},
		},
	}
}

// homeMount mounts the home volume. If the volume does not exist, the engine creates one with the given labels. From
// these, package home knows that it is not a home.
func homeMount(o Options, id workspace.ID, at string, noCopy bool) mount.Mount {
	return mount.Mount{Type: mount.TypeVolume, Source: id.VolumeName(), Target: at,
		VolumeOptions: &mount.VolumeOptions{NoCopy: noCopy, Labels: o.Labels(id, KindAutoCreated)}}
}

// logging limits the container's output to about 2 MiB of disk. It names the driver, because the output of the engine's
// default driver may not be readable.
func logging() container.LogConfig {
	return container.LogConfig{Type: "json-file", Config: map[string]string{"max-size": "1m", "max-file": "2"}}
}

// withHash adds a label that identifies the container's description. After an upgrade or a change of settings the hash
// differs, and a start replaces the container.
func withHash(c Container) Container {
	b, err := json.Marshal([]any{c.Config, c.Host, c.Network})
	if err != nil {
		panic(err) // cannot happen: it is plain data
	}
	sum := sha256.Sum256(b)
	c.Config.Labels[LabelSpec] = hex.EncodeToString(sum[:8])
	return c
}

// orNil returns nil for 0: for the engine, nil means no limit.
func orNil(n int64) *int64 {
	if n == 0 {
		return nil
	}
	return &n
}
