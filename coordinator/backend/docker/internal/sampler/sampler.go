// Package sampler looks into the containers of workspaces on a Docker engine, for signs of work.
//
// It owns how a [work.Sample] is taken: the processes, the busy file, and the command that an image names. It must not
// judge the sample, nor change anything in a container.
package sampler

import (
	"archive/tar"
	"bufio"
	"context"
	"errors"
	"io"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/docker/engine"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/internal/work"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	// busyFileLimit is the largest size of a busy file whose first line is read, and busyLineLimit is how much of that
	// line is read.
	busyFileLimit = 64 << 10
	busyLineLimit = 1 << 10
)

// psArguments are the sets of columns to request from the ps of the engine's host, the most informative first. An older
// ps does not show how much a process has written. The ps of BusyBox does not show that either, nor does it show
// terminals. S adds the time of ended children to their parents. In procps 4.0.2, S affects bsdtime but not cputimes:
// with cputimes, a build of many short programs would seem to compute nothing.
var psArguments = [][]string{
	{"S", "-eo", "pid,ppid,pgid,sid,tpgid,bsdtime,tty,wchars,wops,args"},
	{"S", "-eo", "pid,ppid,pgid,sid,tpgid,bsdtime,tty,args"},
}

// All columns are numbers except the time, the terminal and the command line. The last columns are not always known.
const (
	used     = 5
	terminal = 6
	written  = 7
	writes   = 8
)

// Sampler looks into the containers of one engine. It is safe for concurrent use.
type Sampler struct {
	api *engine.Client
	// asked are the running commands of images; see askImage.
	asked backend.Memo[string]
}

// New returns a sampler. It performs no I/O.
func New(api *engine.Client) *Sampler { return &Sampler{api: api} }

// Retain forgets containers of these workspaces, or of all workspaces if of is empty, unless they are in seen, the
// containers of the latest listing.
func (s *Sampler) Retain(of []workspace.ID, seen map[string]struct{}) { s.asked.Retain(of, seen) }

// Sample looks into a running container, which was just inspected. It runs nothing inside the container except the
// command that the image names.
func (s *Sampler) Sample(ctx context.Context, c *container.InspectResponse) (work.Sample, error) {
	name := strings.TrimPrefix(c.Name, "/")
	found := work.Sample{At: time.Now(), Container: c.ID + " " + c.State.StartedAt, Main: c.State.Pid}
	var err error
	if found.Processes, found.Terminals, err = s.processes(ctx, c.ID); err != nil {
		return found, engine.Wrap("listing the processes of container "+name, err)
	}
	if found.File, err = s.busyFile(ctx, c.ID); err != nil {
		return found, engine.Wrap("looking for "+work.BusyFile+" in container "+name, err)
	}
	if command := c.Config.Labels[work.BusyLabel]; command != "" {
		if found.Label, err = s.askImage(ctx, workspace.ID(c.Config.Labels[spec.LabelWorkspace]), c.ID,
			command); err != nil {
			return found, engine.Wrap("running the command of label "+work.BusyLabel+" in container "+name, err)
		}
	}
	return found, nil
}

// processes lists the processes of a container. terminals is false if the ps of the engine's host cannot tell which
// process is in the foreground.
func (s *Sampler) processes(ctx context.Context, containerID string) (all []work.Process, terminals bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	for _, arguments := range psArguments {
		top, err := s.api.ContainerTop(ctx, containerID, arguments)
		switch {
		case err == nil:
			return parseProcesses(top), true, nil
		case errdefs.IsNotFound(err) || errdefs.IsConflict(err) || !engine.NoPS.Is(err):
			return nil, false, err
		case ctx.Err() != nil:
			return nil, false, err
		}
	}
	return nil, false, nil
}

// parseProcesses parses the output of ps that the engine returns. It omits lines that it cannot parse: the process has
// ended, or ps knows nothing about it.
func parseProcesses(top container.TopResponse) []work.Process {
	out := make([]work.Process, 0, len(top.Processes))
	for _, line := range top.Processes {
		last := len(line) - 1
		if last <= terminal { // the fewest columns requested
			continue
		}
		n := [writes + 1]int64{written: -1}
		var err error
		for i := range min(last, len(n)) {
			var e error
			switch i {
			case terminal:
			case used:
				n[i], e = seconds(line[i])
			default:
				n[i], e = strconv.ParseInt(line[i], 10, 64)
			}
			err = errors.Join(err, e)
		}
		if err != nil {
			continue
		}
		out = append(out, work.Process{
			PID: int(n[0]), Parent: int(n[1]), Group: int(n[2]), Session: int(n[3]), Foreground: int(n[4]),
			CPU: time.Duration(n[used]) * time.Second, Terminal: pseudoterminal(line[terminal]),
			Written: n[written], Writes: n[writes], Args: line[last],
		})
	}
	return out
}

// seconds parses the CPU time that ps prints as minutes and seconds.
func seconds(bsdtime string) (int64, error) {
	minutes, rest, ok := strings.Cut(bsdtime, ":")
	if !ok {
		return 0, errors.New("no time: " + bsdtime)
	}
	m, err := strconv.ParseInt(minutes, 10, 64)
	s, e := strconv.ParseInt(rest, 10, 64)
	return 60*m + s, errors.Join(err, e)
}

// pseudoterminal converts a terminal's name to the number in [work.Process].
func pseudoterminal(name string) int {
	number, ok := strings.CutPrefix(name, "pts/")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return 0
	}
	return n + 1
}

// busyFile returns the file with which a program reports that it works, or nil if there is none. The engine resolves
// the path inside the container. Only a regular file counts: a link would reveal the first line of another file.
func (s *Sampler) busyFile(ctx context.Context, containerID string) (*work.File, error) {
	ctx, cancel := context.WithTimeout(ctx, engine.AnswerLimit)
	defer cancel()
	at := path.Join(spec.HomePath, work.BusyFile)
	stat, err := s.api.ContainerStatPath(ctx, containerID, at)
	if errdefs.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !stat.Mode.IsRegular() {
		return nil, nil
	}
	now, err := s.api.Now(ctx)
	if err != nil {
		return nil, err
	}
	f := &work.File{Age: now.Sub(stat.Mtime)}
	if stat.Size == 0 || stat.Size > busyFileLimit {
		return f, nil
	}
	content, _, err := s.api.CopyFromContainer(ctx, containerID, at)
	if err != nil {
		return f, nil // it was removed, or cannot be read; its time is enough
	}
	defer content.Close()
	r := tar.NewReader(io.LimitReader(content, 2*busyFileLimit))
	if h, err := r.Next(); err == nil && h.Typeflag == tar.TypeReg {
		line, _ := bufio.NewReader(io.LimitReader(r, busyLineLimit)).ReadString('\n')
		f.Line = backend.CleanText(line, busyLineLimit)
	}
	return f, nil
}
