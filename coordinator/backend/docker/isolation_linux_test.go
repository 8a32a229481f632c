package docker_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// forwardTo listens at an address and passes connections on to a server.
func forwardTo(t *testing.T, address, endpoint string) (store string) {
	t.Helper()
	to, err := url.Parse(endpoint)
	must(t, err)
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer from.Close()
				server, err := net.Dial("tcp", to.Host)
				if err != nil {
					return
				}
				defer server.Close()
				go func() { _, _ = io.Copy(server, from); server.Close() }()
				_, _ = io.Copy(from, server)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// inHome runs a script as root in a container that mounts a home, and returns its output.
func (e *engine) inHome(t *testing.T, id workspace.ID, script string) string {
	t.Helper()
	made, err := e.api.ContainerCreate(t.Context(), &container.Config{
		Image: devenv.TerminalImage(t), User: "0:0", Entrypoint: []string{"sh", "-c"}, Cmd: []string{script}, WorkingDir: "/home", Tty: true,
	}, &container.HostConfig{NetworkMode: "none", Binds: []string{id.VolumeName() + ":/home:nocopy"}}, nil, nil, "")
	must(t, err)
	defer func() {
		check(t, e.api.ContainerRemove(context.Background(), made.ID, container.RemoveOptions{Force: true}))
	}()
	must(t, e.api.ContainerStart(t.Context(), made.ID, container.StartOptions{}))
	done, failed := e.api.ContainerWait(t.Context(), made.ID, container.WaitConditionNotRunning)
	code := int64(-1)
	select {
	case end := <-done:
		code = end.StatusCode
	case err := <-failed:
		t.Fatal(err)
	}
	logs, err := e.api.ContainerLogs(t.Context(), made.ID, container.LogsOptions{ShowStdout: true, ShowStderr: true})
	must(t, err)
	defer logs.Close()
	text, err := io.ReadAll(logs)
	must(t, err)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, text)
	}
	return string(text)
}

// TestJobsReachTheStoreAlone runs the product's own job, with a grant and no credentials. A home with unusual files is
// archived and restored through a store at a public address of the engine's host. Everything else on the host stays
// closed, even to another program in the job's place.
func TestJobsReachTheStoreAlone(t *testing.T) {
	outside(t)
	at := devenv.S3(t)
	store := forwardTo(t, outsideHost, at.Endpoint)
	e := egressEngine(t, egress.Options{Enforce: egress.EnforceRequire})
	images := e.change
	e.change = func(o *docker.Options) { images(o); o.Store = store }
	installation := backendtest.Installation()
	b := e.New(t, installation)
	e.forgetRules(t, installation)
	archives, err := archive.New(archive.Options{
		Endpoint: at.Endpoint, JobEndpoint: store, Region: at.Region, Bucket: at.Bucket, AccessKey: at.AccessKey, SecretKey: at.SecretKey, PathStyle: true,
	})
	must(t, err)
	one, two := newID(), newID()
	key := one.ArchiveKey(uuid.NewString())
	move := func(id workspace.ID, kind workspace.JobKind) {
		t.Helper()
		g, err := archives.Grant(t.Context(), kind, key, time.Hour)
		must(t, err)
		text, err := json.Marshal(g)
		must(t, err)
		spec := backend.JobSpec{ID: id, Kind: kind, OpID: uuid.NewString(), Env: archives.JobEnv(key), Grant: text}
		must(t, b.StartJob(t.Context(), spec))
		wait.Until(t, string(kind)+" job ended", func() bool {
			all, err := b.Jobs(t.Context(), id)
			must(t, err)
			if len(all[id]) != 1 || all[id][0].State == workspace.JobRunning {
				return false
			}
			if got := all[id][0]; got.State != workspace.JobSucceeded {
				t.Fatalf("%+v", got)
			}
			return true
		})
		told := e.JobReport(t, id)
		for _, secret := range []string{at.SecretKey, "X-Amz-", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"} {
			if strings.Contains(told, secret) {
				t.Errorf("the engine tells %s of the %s job", secret, kind)
			}
		}
		if _, err := e.api.ContainerStatPath(t.Context(), spec.Name(), contract.GrantPath); !errdefs.IsNotFound(err) {
			t.Errorf("the grant is still there: %v", err)
		}
		must(t, b.DeleteJobs(t.Context(), id))
	}
	for _, id := range []workspace.ID{one, two} {
		must(t, b.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	}
	const list = `cd /home && find . | sort | while read -r f; do stat -c '%n %a %u:%g %F' "$f"; done && find . -type f | sort | xargs md5sum`
	// Reading or recreating each of these requires another capability.
	want := e.inHome(t, one, `cd /home && mkdir -p closed/inner shared && echo secret >closed/inner/none && echo run >program &&
		chown -R 4321:4322 closed && chmod 0 closed/inner/none && chmod 700 closed closed/inner && chown 1000:1001 shared program && chmod 2770 shared &&
		chmod 6755 program && chown 1000:1000 /home && chmod 700 /home && `+list)
	for _, odd := range []string{"./closed/inner/none 0 4321:4322", "./shared 2770 1000:1001", "./program 6755"} {
		if !strings.Contains(want, odd) {
			t.Fatalf("the home lacks %q: %s", odd, want)
		}
	}
	move(one, workspace.JobArchive)
	move(two, workspace.JobRestore)
	if got := e.inHome(t, two, list); got != want {
		t.Errorf("archived %s, and restored %s", want, got)
	}

	// This is another container in the network of the jobs, and has all tools of a workspace's image.
	l, err := net.Listen("tcp", "0.0.0.0:0")
	must(t, err)
	serve(t, l)
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(t, err)
	foreign, err := e.api.ContainerCreate(t.Context(), &container.Config{Image: devenv.TerminalImage(t)},
		&container.HostConfig{NetworkMode: container.NetworkMode("codehub_jobs-" + installation)}, nil, nil, "")
	must(t, err)
	t.Cleanup(func() {
		check(t, e.api.ContainerRemove(context.Background(), foreign.ID, container.RemoveOptions{Force: true}))
	})
	must(t, e.api.ContainerStart(t.Context(), foreign.ID, container.StartOptions{}))
	reached := e.reaches(t, foreign.ID, map[string]string{
		"host": "http://" + net.JoinHostPort(outsideHost, port), "private network": "http://" + outsidePrivate, "metadata": "http://" + outsideData,
		"internet": "http://" + outsidePublic, "internet by name": "http://somewhere.example", "web where DNS is": "http://" + hostNameserver(t),
	})
	if len(reached) != 0 {
		t.Errorf("from the jobs' network %q is reached", reached)
	}
	// The store answers that container, which has no credentials.
	wait.For(t, "the store refuses a request without a grant", func() error {
		if _, out := e.inside(t, foreign.ID, "timeout", "5", "wget", "-O", "-", store+"/"+at.Bucket); !strings.Contains(out, "403") {
			return errors.New(out)
		}
		return nil
	})
	if stood, err := b.KeepIsolated(t.Context()); err != nil || !stood {
		t.Errorf("the rules stood: %v, %v", stood, err)
	}
	left, err := b.Objects(t.Context())
	must(t, err)
	for _, o := range left {
		if o.Kind == backend.ObjectNetwork {
			t.Errorf("the jobs' network counts as left over: %s", fmt.Sprint(o))
		}
	}
}
