//go:build compose

package e2e

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/build"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"
	"github.com/docker/docker/client"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/server"
	"github.com/codehub/gateway/coordinator/wait"
)

// composed is the part of the compose file that this test uses.
type composed struct {
	Services map[string]struct {
		Environment map[string]string
		Entrypoint  []string
		Command     []string
		Secrets     []struct{ Source string }
		GroupAdd    []string `json:"group_add"`
		User        string
		NetworkMode string   `json:"network_mode"`
		ReadOnly    bool     `json:"read_only"`
		CapDrop     []string `json:"cap_drop"`
		SecurityOpt []string `json:"security_opt"`
		Tmpfs       []string
		HealthCheck struct{ Test []string }
		Networks    map[string]struct {
			Address string `json:"ipv4_address"`
		}
	}
	Networks map[string]struct {
		Name     string
		Internal bool
		IPAM     struct{ Config []struct{ Subnet string } }
	}
}

// TestCompose runs the gateway, the object store and the storage job of the compose file as containers on a real
// engine, with the settings that the file gives them. The file's images of PostgreSQL and Redis are in a registry, so
// this test uses the servers of the other tests instead. A workspace is created, opened, archived and restored, and
// cannot reach any part of the installation.
func TestCompose(t *testing.T) {
	host := devenv.Docker(t)
	socket := strings.TrimPrefix(host, "unix://")
	info, err := os.Stat(socket)
	if err != nil {
		t.Fatal(err)
	}
	password := "a password of this test"
	file := readCompose(t, "DOCKER_GID="+strconv.FormatUint(uint64(info.Sys().(*syscall.Stat_t).Gid), 10))
	api, err := server.EngineClient(host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { api.Close() })
	id := devenv.Installation("compose")
	in := &installation{id: id, port: 8080, domain: "localhost", password: password, log: &logBuffer{}}
	in.docker = devenv.Inspect(t, host, id)
	in.engine = in.docker
	t.Cleanup(func() { devenv.Clear(t, in.engine) })

	// The network of the store, and the store.
	net := file.Networks["store"]
	made, err := api.NetworkCreate(t.Context(), net.Name, network.CreateOptions{
		Internal: net.Internal, IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: net.IPAM.Config[0].Subnet}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := api.NetworkRemove(context.Background(), made.ID); err != nil {
			t.Error(err)
		}
	})
	database, redis := devenv.ForPods(t, devenv.PostgreSQL(t), devenv.Redis(t))
	secrets := t.TempDir()
	for name, secret := range map[string]string{
		"DATABASE_URL": database, "REDIS_URL": redis, "S3_SECRET_KEY": "secret", "CODEHUB_ADMIN_PASSWORD": password,
	} {
		if err := os.WriteFile(filepath.Join(secrets, name), []byte(secret+"\n"), 0o644); err != nil { //nolint:gosec // as the first lines of the file make them
			t.Fatal(err)
		}
	}
	run := func(name, image string, env map[string]string, mounts ...mount.Mount) string {
		t.Helper()
		s := file.Services[name]
		config := container.Config{
			Image: image, User: s.User, Entrypoint: s.Entrypoint, Cmd: s.Command, Labels: map[string]string{"codehub.installation": id},
			Healthcheck: &container.HealthConfig{Test: s.HealthCheck.Test, Interval: time.Second, Timeout: 5 * time.Second},
		}
		for _, values := range []map[string]string{s.Environment, env} {
			for key, value := range values {
				config.Env = append(config.Env, key+"="+value)
			}
		}
		for _, secret := range s.Secrets {
			mounts = append(mounts, mount.Mount{
				Type: mount.TypeBind, Source: filepath.Join(secrets, secret.Source), Target: "/run/secrets/" + secret.Source, ReadOnly: true,
			})
		}
		hostConfig := container.HostConfig{
			NetworkMode: container.NetworkMode(s.NetworkMode), ReadonlyRootfs: s.ReadOnly, CapDrop: s.CapDrop,
			SecurityOpt: s.SecurityOpt, GroupAdd: s.GroupAdd, Mounts: mounts, Tmpfs: make(map[string]string),
		}
		for _, t := range s.Tmpfs {
			path, options, _ := strings.Cut(t, ":")
			hostConfig.Tmpfs[path] = options
		}
		networks := new(network.NetworkingConfig)
		for _, n := range s.Networks {
			hostConfig.NetworkMode = container.NetworkMode(net.Name)
			networks.EndpointsConfig = map[string]*network.EndpointSettings{
				net.Name: {IPAMConfig: &network.EndpointIPAMConfig{IPv4Address: n.Address}},
			}
		}
		c, err := api.ContainerCreate(t.Context(), &config, &hostConfig, networks, nil, id+"-"+name)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("%s: %s", name, logsOf(api, c.ID))
			}
			if err := api.ContainerRemove(context.Background(), c.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
				t.Error(err)
			}
		})
		if err := api.ContainerStart(t.Context(), c.ID, container.StartOptions{}); err != nil {
			t.Fatal(err)
		}
		wait.For(t, name+" is healthy", func() error {
			found, err := api.ContainerInspect(t.Context(), c.ID)
			if err != nil {
				return err
			}
			if found.State.Health == nil || found.State.Health.Status != container.Healthy {
				return errors.New(logsOf(api, c.ID))
			}
			return nil
		})
		return c.ID
	}
	run("store", storeImage(t, api), nil, mount.Mount{Type: mount.TypeVolume, Target: "/objects"})
	run("gateway", devenv.GatewayImage(t), map[string]string{
		"CODEHUB_INSTALLATION":    id,
		"CODEHUB_WORKSPACE_IMAGE": devenv.TerminalImage(t), "CODEHUB_JOB_IMAGE": devenv.StorageJobImage(t),
	}, mount.Mount{Type: mount.TypeBind, Source: socket, Target: "/var/run/docker.sock"})

	me := in.admin(t)
	w := me.create(t, "one")
	res, body := me.request(t, http.MethodGet, "/w/"+w.ID+"/healthz", nil)
	if res.StatusCode != http.StatusOK {
		t.Errorf("the workspace answers %s: %s", res.Status, body)
	}
	// The workspace reaches neither the object store nor the gateway nor the gateway's administration endpoint.
	store := file.Services["store"].Networks["store"].Address
	bridge, err := api.NetworkInspect(t.Context(), made.ID, network.InspectOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, address := range []string{store + " 7070", bridge.IPAM.Config[0].Gateway + " 8080", "127.0.0.1 2019"} {
		res, body := me.request(t, http.MethodPost, "/api/v1/workspaces/"+w.ID+"/exec",
			map[string]any{"command": []string{"sh", "-c", "nc -w 2 " + address + " </dev/null"}})
		if res.StatusCode != http.StatusOK || strings.Contains(body, `"exit_code":0`) || !strings.Contains(body, "exit_code") {
			t.Errorf("a workspace connects to %s: %s", address, body)
		}
	}
	for _, state := range []string{"ARCHIVED", "RUNNING"} {
		me.setDesiredState(t, w.ID, state)
		me.awaitPhase(t, w.ID, state)
	}
}

// readCompose reads the compose file with these variables.
func readCompose(t *testing.T, env ...string) (c composed) {
	t.Helper()
	reader, err := server.BuildCompose(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(reader, "../deploy/compose/compose.yaml")
	cmd.Env, cmd.Stderr = env, os.Stderr
	text, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// storeImage builds an image as the last stage of the compose file's Dockerfile does, from files of this machine.
func storeImage(t *testing.T, api *client.Client) string {
	t.Helper()
	program, err := server.BuildS3(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var files bytes.Buffer
	w := tar.NewWriter(&files)
	add := func(name string, mode int64, body []byte) {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	for name, path := range map[string]string{"versitygw": program, "busybox": "/bin/busybox"} {
		body, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		add(name, 0o755, body)
	}
	var links strings.Builder
	for _, name := range []string{"sh", "cat", "wget"} {
		fmt.Fprintf(&links, "RUN [\"/bin/busybox\", \"ln\", \"-s\", \"busybox\", \"/bin/%s\"]\n", name)
	}
	add("Dockerfile", 0o644, []byte("FROM scratch\nCOPY versitygw /usr/bin/versitygw\nCOPY busybox /bin/busybox\n"+links.String()+
		"RUN [\"/bin/busybox\", \"mkdir\", \"/objects\"]\n"+
		"RUN [\"/bin/busybox\", \"chown\", \"65532:65532\", \"/objects\"]\n"+
		"USER 65532:65532\nENTRYPOINT [\"/usr/bin/versitygw\"]\n"))
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	built, err := api.ImageBuild(t.Context(), &files, build.ImageBuildOptions{
		Tags: []string{"codehub/teststore"}, Remove: true, ForceRemove: true, NetworkMode: "none",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer built.Body.Close()
	said, err := io.ReadAll(built.Body)
	if err != nil || bytes.Contains(said, []byte(`"error"`)) {
		t.Fatalf("building the store's image: %v\n%s", err, said)
	}
	return "codehub/teststore"
}

// logsOf returns the output of a container.
func logsOf(api *client.Client, id string) string {
	r, err := api.ContainerLogs(context.Background(), id, container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: "60"})
	if err != nil {
		return fmt.Sprint(err)
	}
	defer r.Close()
	text, _ := io.ReadAll(r)
	return string(text)
}
