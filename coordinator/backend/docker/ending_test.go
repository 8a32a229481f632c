package docker_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend/docker"
)

// The programs below are shell commands. Once they handle their signal, they create the file /tmp/up-WORD.
const forever = `; while :; do sleep 0.1; done`

// ends returns a program that writes the word into ~/ends and ends, the given number of seconds after the signal.
func ends(word, signal, after string) string {
	return fmt.Sprintf(`trap 'sleep %s; echo %s >>/home/coder/ends; exit 0' %s; touch /tmp/up-%s`, after, word, signal, word) + forever
}

// deaf is a program that ignores these signals.
func deaf(signals string) string {
	return fmt.Sprintf(`trap '' %s; touch /tmp/up-deaf`, signals) + forever
}

// detached returns a command that leaves the program running in a session of its own.
func detached(program string) string {
	return fmt.Sprintf("setsid sh -c '%s' </dev/null >/dev/null 2>&1 &\n", strings.ReplaceAll(program, "'", `'\''`))
}

// TestAskedToEnd: before a container is removed, its programs are asked to end, and have the configured time. The wait
// ends with the last program.
func TestAskedToEnd(t *testing.T) {
	t.Parallel()
	const long = time.Minute // it is never waited for
	for name, c := range map[string]struct {
		main   string // the application; empty means the terminal's
		signal string // declared by its image
		beside string // leaves programs behind in the container
		up     string // the programs, by their words
		grace  time.Duration
		frozen bool
		want   string // the content of ~/ends afterwards
	}{
		"asked":                {main: ends("asked", "TERM", "0"), up: "asked", grace: long, want: "asked"},
		"it takes its time":    {main: ends("asked", "TERM", "1"), up: "asked", grace: long, want: "asked"},
		"too late":             {main: ends("asked", "TERM", "600"), up: "asked", grace: time.Second},
		"no grace":             {main: ends("asked", "TERM", "0"), up: "asked"},
		"its own signal":       {main: ends("quit", "QUIT", "0"), up: "quit", signal: "SIGQUIT", grace: long, want: "quit"},
		"a number":             {main: ends("usr1", "USR1", "0"), up: "usr1", signal: "10", grace: long, want: "usr1"},
		"killed by its image":  {main: ends("asked", "TERM", "0"), up: "asked", signal: "SIGKILL", grace: long},
		"frozen":               {main: ends("asked", "TERM", "0"), up: "asked", grace: long, frozen: true, want: "asked"},
		"deaf":                 {main: deaf("TERM"), up: "deaf", grace: time.Second},
		"a program beside":     {beside: detached(ends("beside", "TERM", "1")), up: "beside", grace: long, want: "beside"},
		"one beside, frozen":   {beside: detached(ends("beside", "TERM", "1")), up: "beside", grace: long, frozen: true, want: "beside"},
		"a program and it":     {main: ends("asked", "TERM", "0"), beside: detached(ends("beside", "TERM", "0.5")), up: "asked beside", grace: long, want: "beside asked"},
		"a shell":              {beside: detached(`trap "" TERM; ` + ends("shell", "HUP", "0.2")), up: "shell", grace: long, want: "shell"},
		"a shell after others": {beside: detached(ends("program", "TERM", "0.5")) + detached(`trap "" TERM; `+ends("shell", "HUP", "0")), up: "program shell", grace: long, want: "program shell"},
		"deaf beside":          {main: ends("asked", "TERM", "0"), beside: detached(deaf("TERM HUP")), up: "asked deaf", grace: 20 * time.Second, want: "asked"},
		"stopped beside":       {beside: detached("echo $$ >/tmp/pid; " + ends("went-on", "TERM", "0")), up: "went-on", grace: long, want: "went-on"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReal(t, func(o *docker.Options) { o.StopGrace, o.NanoCPUs = c.grace, 0 })
			config := container.Config{StopSignal: c.signal}
			if c.main != "" {
				config.Entrypoint = []string{"sh", "-c", c.main}
			}
			id := r.start(r.variant(config, nil))
			r.sh(id, c.beside+"for p in "+c.up+"; do until [ -e /tmp/up-$p ]; do sleep 0.05; done; done")
			if name == "stopped beside" {
				r.sh(id, "kill -STOP $(cat /tmp/pid)")
			}
			if c.frozen {
				all, err := r.backend.Containers(t.Context(), id)
				r.must(err)
				r.must(r.backend.Freezer.Freeze(t.Context(), id, all[id].StartedAt))
			}
			begin := time.Now()
			r.must(r.backend.Delete(t.Context(), id))
			if took := time.Since(begin); c.grace == long && took > long/2 {
				t.Errorf("it took %s of %s", took, c.grace)
			}
			if all, err := r.backend.Containers(t.Context()); err != nil || len(all) != 0 {
				t.Errorf("%+v, %v, want no container", all, err)
			}
			r.run(id, "")
			if got := r.sh(id, "cat ~/ends 2>/dev/null || true"); strings.Join(strings.Fields(got), " ") != c.want {
				t.Errorf("~/ends says %q, want %q", got, c.want)
			}
		})
	}
}

// TestTerminalIsAskedToEnd: the program in a terminal has time to end. Then the shell ends as if the terminal had been
// closed.
func TestTerminalIsAskedToEnd(t *testing.T) {
	t.Parallel()
	const grace = time.Minute
	r := newReal(t, func(o *docker.Options) { o.StopGrace, o.NanoCPUs = grace, 0 })
	id := r.start("")
	r.typed(id, `sh -c '`+strings.ReplaceAll(ends("program", "TERM", "0.5"), "'", `'\''`)+"'")
	r.sh(id, "until [ -e /tmp/up-program ]; do sleep 0.05; done")
	begin := time.Now()
	r.must(r.backend.Delete(t.Context(), id))
	if took := time.Since(begin); took > grace/2 {
		t.Errorf("it took %s of %s", took, grace)
	}
	r.run(id, "")
	if got := r.sh(id, "cat ~/ends"); got != "program" {
		t.Errorf("~/ends says %q", got)
	}
}

// TestApplicationBehindAnInit: an init has put the application into a separate session. Only the init asks it to end,
// with the signal of the image. Other programs still come first.
func TestApplicationBehindAnInit(t *testing.T) {
	t.Parallel()
	const script = `#!/bin/sh
setsid "$@" &
trap "kill -USR1 $!" USR1
trap "kill $!" TERM
while kill -0 $! 2>/dev/null; do wait $!; done
`
	for name, chain := range map[string][]string{
		"dumb-init": {"dumb-init"}, "s6": {"s6-svscan", "s6-supervise"}, "both": {"dumb-init", "s6-svscan", "s6-supervise"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newReal(t, func(o *docker.Options) { o.StopGrace, o.NanoCPUs = time.Minute, 0 })
			built := "USER 0\n"
			for _, program := range chain {
				file := "/usr/local/bin/" + program
				built += fmt.Sprintf("RUN mkdir -p /usr/local/bin && echo %s | base64 -d >%s && chmod +x %s\n",
					base64.StdEncoding.EncodeToString([]byte(script)), file, file)
			}
			entry, err := json.Marshal(append(chain, "sh", "-c", `trap "echo wrong >>/home/coder/ends" TERM; `+ends("usr1", "USR1", "0.3")))
			r.must(err)
			id := r.start(r.built(built + "USER 1000:1000\nSTOPSIGNAL SIGUSR1\nENTRYPOINT " + string(entry) + "\n"))
			r.sh(id, detached(ends("beside", "TERM", "0"))+"for p in usr1 beside; do until [ -e /tmp/up-$p ]; do sleep 0.05; done; done")
			r.must(r.backend.Delete(t.Context(), id))
			r.run(id, "")
			if got := r.sh(id, "cat ~/ends"); strings.Join(strings.Fields(got), " ") != "beside usr1" {
				t.Errorf("~/ends says %q", got)
			}
		})
	}
}

// TestAskedWithinTheTimeThatIsLeft: even if programs may take long to end, enough time remains to remove the container.
func TestAskedWithinTheTimeThatIsLeft(t *testing.T) {
	t.Parallel()
	r := newReal(t, func(o *docker.Options) { o.StopGrace = time.Minute })
	for _, left := range []time.Duration{8 * time.Second, 11 * time.Second} {
		id := r.start(r.variant(container.Config{Entrypoint: []string{"sh", "-c", deaf("TERM")}}, nil))
		r.sh(id, "until [ -e /tmp/up-deaf ]; do sleep 0.05; done")
		ctx, cancel := context.WithTimeout(t.Context(), left)
		r.must(r.backend.Delete(ctx, id))
		cancel()
	}
}
