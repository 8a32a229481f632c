package docker_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"
	"github.com/google/uuid"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
)

// real is an engine with workspaces that run real programs.
type real struct {
	*testing.T
	api     *client.Client
	backend backend.Backend
	image   string
}

// newReal returns an engine with options changed by these functions.
func newReal(t *testing.T, edits ...func(*docker.Options)) *real {
	t.Helper()
	host := devenv.Docker(t)
	api, err := client.NewClientWithOpts(client.WithHost(host), client.WithAPIVersionNegotiation())
	if err != nil {
		t.Fatal(err)
	}
	r := &real{T: t, api: api, image: devenv.TerminalImage(t)}
	installation := "test-" + uuid.NewString()[:13]
	// A program that computes gets a fifth of a core, so that it leaves time for the tests that run at the same time.
	o := docker.Options{Host: host, Installation: installation, Image: r.image, NanoCPUs: 2e8}
	for _, edit := range edits {
		edit(&o)
	}
	b, err := docker.New(o)
	if err != nil {
		t.Fatal(err)
	}
	r.backend = b
	t.Cleanup(func() {
		_ = b.Close()
		devenv.RemoveInstallation(t, api, installation)
		_ = api.Close()
	})
	return r
}

func (r *real) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// start starts a workspace; an empty image means the terminal's.
func (r *real) start(image string) workspace.ID {
	r.Helper()
	id := workspace.ID(uuid.NewString())
	r.must(r.backend.Provision(r.Context(), backend.VolumeSpec{ID: id, OpID: "op"}))
	r.run(id, image)
	return id
}

// run starts the workspace, whose home exists. At the end of the test its container is removed before the image.
func (r *real) run(id workspace.ID, image string) {
	r.Helper()
	r.must(r.backend.Start(r.Context(), backend.StartSpec{ID: id, Image: image}))
	r.Cleanup(func() { check(r, r.backend.Delete(context.Background(), id)) })
}

// typed types lines, if any, into a shell on a separate terminal, once its prompt has arrived. A shell without a prompt
// is not idle.
func (r *real) typed(id workspace.ID, lines string) {
	r.Helper()
	e, err := r.api.ContainerExecCreate(r.Context(), id.ContainerName(), container.ExecOptions{
		Tty: true, AttachStdin: true, AttachStdout: true, Cmd: []string{"/bin/sh", "-i"}, WorkingDir: "/home/coder",
	})
	r.must(err)
	term, err := r.api.ContainerExecAttach(r.Context(), e.ID, container.ExecAttachOptions{Tty: true})
	r.must(err)
	r.Cleanup(term.Close)
	for prompt := byte(0); prompt != '$' && prompt != '#'; {
		prompt, err = term.Reader.ReadByte()
		r.must(err)
	}
	if lines != "" {
		_, err = fmt.Fprintf(term.Conn, "%s\n", lines)
		r.must(err)
	}
	go func() {
		for {
			if _, err := term.Reader.Discard(1); err != nil {
				return
			}
		}
	}()
}

func (r *real) look(id workspace.ID) work.Sample {
	r.Helper()
	s, err := r.backend.Look(r.Context(), id)
	r.must(err)
	return s
}

// TestRealPrograms lists programs that users leave running in terminals, and whether they are work. Each program that
// is not work is observed for as long as the slowest of the others needed to be recognised as work.
func TestRealPrograms(t *testing.T) {
	r := newReal(t)
	const computing = `sh -c 'while :; do :; done'`
	cases := map[string]*struct {
		typed  string
		runs   string // what the command lines must show before the first look
		reason string // empty means that it is no work
		id     workspace.ID
		before work.Sample
		got    work.Verdict
	}{
		"nobody":                                    {},
		"a shell":                                   {typed: "", runs: "/bin/sh -i"},
		"a loop that prints":                        {typed: `while :; do date; sleep 1; done`, runs: "sleep 1", reason: workspace.BusyTerminal},
		"a loop that writes to a file":              {typed: `while :; do date >x; sleep 1; done`, runs: "sleep 1", reason: workspace.BusyTerminal},
		"a program that follows a file":             {typed: `touch log; (while :; do date >>log; sleep 1; done) & tail -f log`, runs: "tail", reason: workspace.BusyTerminal},
		"a program that computes":                   {typed: computing, runs: "do :; done", reason: workspace.BusyTerminal},
		"one that computes, with children that end": {typed: `while :; do sh -c 'for i in $(seq 3000); do :; done'; done`, runs: "seq", reason: workspace.BusyTerminal},
		"one that computes in the background":       {typed: computing + ` &`, runs: "do :; done", reason: workspace.BusyBackground},
		"one in the background, whose children end": {typed: `(while :; do sh -c 'i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done'; done) &`, runs: "lt 20000", reason: workspace.BusyBackground},
		"one without a terminal":                    {typed: `setsid ` + computing + ` & sleep 1; exit`, runs: "do :; done", reason: workspace.BusyBackground},
		"a pipe":                                    {typed: `cat /dev/urandom | cat >/dev/null`, runs: "urandom", reason: workspace.BusyTerminal},
		"a coding agent that waits":                 {typed: `echo 'read answer' >claude; sh ./claude`, runs: "sh ./claude", reason: workspace.BusyCommand},
		"sleep":                                     {typed: `sleep 600`, runs: "sleep 600"},
		"sleep in the background":                   {typed: `sleep 600 &`, runs: "sleep 600"},
		"a loop that sleeps":                        {typed: `while :; do sleep 1; done`, runs: "sleep 1"},
		"less":                                      {typed: `less /etc/passwd`, runs: "less"},
		"top":                                       {typed: `top`, runs: "top"},
		"watch":                                     {typed: `watch -n 1 date`, runs: "watch"},
		"vi":                                        {typed: `vi x`, runs: "vi x"},
		"a prompt of another program":               {typed: `cat`, runs: "cat"},
		"an agent's name as an argument":            {typed: `cp /etc/passwd claude; less claude`, runs: "less claude"},
		"a server that waits":                       {typed: `httpd -f -p 9022 -h /home/coder`, runs: "httpd"},
		"the busy file":                             {typed: `mkdir -p ~/.codehub && echo "nightly build" > ~/.codehub/busy; exit`, reason: workspace.BusyFile},
		"an old busy file":                          {typed: `mkdir -p ~/.codehub && touch -d 2001-01-01 ~/.codehub/busy; exit`},
		"a link as the busy file":                   {typed: `mkdir -p ~/.codehub && ln -s /etc/passwd ~/.codehub/busy; exit`},
		"a folder as the busy file":                 {typed: `mkdir -p ~/.codehub/busy; exit`},
	}
	for name, c := range cases {
		c.id = r.start("")
		if name != "nobody" {
			r.typed(c.id, c.typed)
		}
		if c.reason == workspace.BusyTerminal || c.reason == workspace.BusyBackground {
			// The computing programs run for the whole test. Together they leave most of the machine to the others.
			_, err := r.api.ContainerUpdate(r.Context(), c.id.ContainerName(),
				container.UpdateConfig{Resources: container.Resources{NanoCPUs: 5e7}})
			r.must(err)
		}
	}
	settings := work.DefaultSettings()
	// In this test, a computing program gets at most as much processor time as the default setting requires, and less on a
	// busy machine. So the test requires only a tenth, and programs that are not work stay far below that, too.
	starved := settings
	starved.CPU /= 10
	for name, c := range cases {
		wait.Until(t, name+" runs", func() bool {
			c.before = r.look(c.id)
			for _, p := range c.before.Processes {
				if strings.Contains(p.Args, c.runs) {
					return true
				}
			}
			return false
		})
	}
	began := time.Now()
	for name, c := range cases {
		if c.reason != "" {
			wait.Until(t, name+" is work", func() bool {
				c.got = starved.Judge(&c.before, r.look(c.id), time.Hour)
				return c.got.Reason != ""
			})
		}
	}
	wait.Until(t, "some seconds have passed", func() bool { return time.Since(began) > 5*time.Second })
	for name, c := range cases {
		if c.reason == "" {
			now := r.look(c.id)
			if c.got = settings.Judge(&c.before, now, time.Hour); c.got.Reason == "" {
				c.got = starved.Judge(&c.before, now, time.Hour)
			}
		}
		t.Logf("%-45s %+v", name, c.got)
		if c.got.Reason != c.reason || !c.got.Known {
			t.Errorf("%s: %+v, want %q", name, c.got, c.reason)
			for _, p := range r.look(c.id).Processes {
				t.Logf("  %+v", p)
			}
		}
	}
	if d := cases["the busy file"].got.Detail; d != "nightly build" {
		t.Errorf("the reason in the busy file is %q", d)
	}
}

// labelled returns the terminal's image with that command as a label.
func (r *real) labelled(command string) string {
	r.Helper()
	made, err := r.api.ContainerCreate(r.Context(), &container.Config{Image: r.image}, nil, nil, nil, "")
	r.must(err)
	defer func() { _ = r.api.ContainerRemove(r.Context(), made.ID, container.RemoveOptions{Force: true}) }()
	image, err := r.api.ContainerCommit(r.Context(), made.ID, container.CommitOptions{Config: &container.Config{
		Labels: map[string]string{work.BusyLabel: command},
	}})
	r.must(err)
	return image.ID
}

func TestTheCommandOfAnImage(t *testing.T) {
	r := newReal(t)
	id := r.start(r.labelled(`test -e /tmp/busy && test "$(id -u)" = 1000`))
	wait.For(t, "its command has failed", func() error { // on a busy machine it may not end in time
		s := r.look(id)
		if s.Label == work.Busy {
			t.Fatal("its command fails, and it counts as busy")
		}
		if s.Label != work.Idle {
			return fmt.Errorf("%q", s.Label)
		}
		return nil
	})
	r.typed(id, "touch /tmp/busy; exit")
	wait.Until(t, "the command says that it is busy", func() bool { return r.look(id).Label == work.Busy })

	hangs := r.start(r.labelled("echo x >>~/runs; sleep 600"))
	for range 2 {
		if s := r.look(hangs); s.Label != work.NoAnswer {
			t.Errorf("its command does not end: %q", s.Label)
		}
	}
	wait.Until(t, "the command that hangs is seen after at least three looks, once", func() bool {
		sleeping := 0
		for _, p := range r.look(hangs).Processes {
			if p.Args == "sleep 600" {
				sleeping++
			}
		}
		if sleeping > 1 {
			t.Fatalf("%d commands hang in it, want 1", sleeping)
		}
		return sleeping == 1
	})
}
