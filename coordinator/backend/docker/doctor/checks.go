package doctor

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/docker/go-units"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/check"
	"github.com/codehub/gateway/coordinator/backend/docker/spec"
	"github.com/codehub/gateway/coordinator/backend/egress"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Expected describes what the product's other settings expect of an engine.
type Expected struct {
	// Running is how many workspaces may run at once, and Dozing how many more may doze; 0 means any number.
	Running, Dozing int
	// Dozes means that idle workspaces doze.
	Dozes bool
	// Images are the images that workspaces may use.
	Images []string
	// ArchiveAt and StopAt are the thresholds of disk_pressure, as shares of the disk from 0 (off) to 1. NearlyFull is
	// the share at which to warn if ArchiveAt is off.
	ArchiveAt, StopAt, NearlyFull float64
}

// fullShare is the share of its addresses that a network must use to count as nearly full.
const fullShare = 0.8

type checks struct {
	*Doctor
	Expected
}

// Checks is the table of an engine's checks. A new check is a row here.
func (d *Doctor) Checks(e Expected) []check.Row {
	c := checks{d, e}
	return []check.Row{
		{Name: "engine", Run: c.checkEngine,
			Remedy: "check the setting docker host (DOCKER_HOST), that the engine runs, and that the user of this program may use its " +
				"socket: usermod -aG docker codehub"},
		{Name: "images", Needs: "engine", Run: c.checkImages},
		{Name: "declarations", Needs: "engine", Run: c.checkDeclarations},
		{Name: "network", Needs: "engine", Run: c.checkNetwork},
		{Name: "egress", Needs: "engine", Run: c.checkEgress,
			Remedy: "egress enforce open says that workspaces may reach everything; allow the engine's host to run a " +
				"container with NET_ADMIN otherwise"},
		{Name: "isolation", Needs: "engine", Run: c.checkIsolation, Remedy: "see the line of egress"},
		{Name: "disk", Needs: "engine", Run: c.checkDisk,
			Remedy: "put the engine's data folder on xfs mounted with pquota, or set docker disk to 0"},
		{Name: "home", Needs: "engine", Run: c.checkHome,
			Remedy: "put the engine's data folder on xfs mounted with pquota, or set docker home to 0"},
		{Name: "space", Needs: "engine", Run: c.checkSpace,
			Remedy: "look at the disk of the engine's data folder with df"},
		{Name: "freezing", Needs: "engine", Run: c.checkFreezing},
		{Name: "owners", Needs: "engine", Run: c.checkOwners},
	}
}

func (c checks) checkEngine(ctx context.Context) ([]check.Finding, error) {
	before := time.Now()
	e, err := c.Engine(ctx)
	if err != nil {
		return nil, err
	}
	name := fmt.Sprintf("Docker %s (%s)", e.Version, e.Driver)
	found := []check.Finding{check.OK("%s answers", name)}
	if !e.Now.IsZero() {
		found[0] = check.Clock(name, before, e.Now, time.Now())
	}
	if e.Rootless && c.opts.Publish != spec.PublishLoopback {
		found = append(found, check.Problem("set docker publish loopback (CODEHUB_PUBLISH)",
			"the engine has a network of its own (rootless, or in a virtual machine), where containers cannot be "+
				"reached at their addresses"))
	}
	return found, nil
}

func (c checks) checkImages(ctx context.Context) ([]check.Finding, error) {
	missing, err := c.MissingImages(ctx)
	var found []check.Finding
	for _, ref := range missing {
		found = append(found, check.Warning("docker pull "+ref+", or make images", "image %s is not here; the first "+
			"start waits for it to be pulled", ref))
	}
	var unfit *workspace.PendingError
	switch jobs := c.JobImage(ctx); {
	case errors.As(jobs, &unfit):
		found = append(found, check.Problem("it continues by itself when the image is there",
			"nothing is archived or restored, and no firewall rules are made: %v", jobs))
	case err == nil:
		err = jobs
	}
	if len(found) == 0 && err == nil {
		found = []check.Finding{check.OK("the images of workspaces and of storage jobs are here")}
	}
	return found, err
}

func (c checks) checkNetwork(ctx context.Context) ([]check.Finding, error) {
	n, err := c.Network(ctx)
	if err != nil {
		return nil, err
	}
	if !n.Exists {
		return []check.Finding{check.OK("network %s is created when it is needed", n.Name)}, nil
	}
	var found []check.Finding
	if size := 1<<max(32-n.Subnet.Bits(), 0) - 3; n.Subnet.IsValid() { // network, broadcast, gateway
		line := fmt.Sprintf("network %s: %d of the %d addresses in %s are in use", n.Name, n.Used, size, n.Subnet)
		switch {
		case c.Running+c.Dozing > size:
			found = append(found, check.Problem("remove the network while no workspace runs, so that a "+
				"larger one is created, or lower limits max_running_global or max_dozing_global",
				"%s, and %d workspaces may run (limits max_running_global) and %d doze (limits max_dozing_global)",
				line, c.Running, c.Dozing))
		case float64(n.Used) > fullShare*float64(size):
			found = append(found, check.Warning("use a network with a larger subnet", "%s", line))
		default:
			found = append(found, check.OK("%s", line))
		}
	}
	if !n.Isolated {
		found = append(found, check.Warning("remove the network while no workspace runs: CodeHub makes one whose "+
			"containers are isolated (enable_icc=false); or keep it, if the rules of egress stand",
			"network %s lets its containers reach one another", n.Name))
	}
	return found, nil
}

func (c checks) checkEgress(ctx context.Context) ([]check.Finding, error) {
	if e := c.opts.Egress.Enforce; e == "" || e == egress.EnforceOpen {
		return []check.Finding{check.Warning("egress enforce auto or require closes it",
			"by the setting egress enforce, workspaces may reach private networks, this host and the "+
				"metadata service")}, nil
	}
	e, err := c.Egress(ctx)
	var missing *backend.MissingImageError
	switch {
	case errors.As(err, &missing):
		return []check.Finding{check.Problem("docker pull "+missing.Image+", or make images",
			"the image that makes the firewall rules, %s, is not here", missing.Image)}, nil
	case err != nil:
		return nil, err
	case e.None:
		return []check.Finding{check.OK("the firewall rules are made with the network of workspaces")}, nil
	case e.Unable != nil && !e.Decided && c.opts.Egress.Enforce == egress.EnforceAuto:
		return []check.Finding{check.Problem("use an engine that lets a container administer its host's network; "+
			"egress enforce require starts nothing without rules, and open says that this is as it should be",
			"this engine cannot have firewall rules, so that workspaces run without and may reach private networks "+
				"and this host: %v", e.Unable)}, nil
	case e.Unable != nil:
		return []check.Finding{check.Problem("let a container administer the network of the engine's host again; or "+
			"have auto decide anew with caddy codehub egress remove, or write egress enforce open",
			"the firewall rules cannot be made, and nothing starts without them: %v", e.Unable)}, nil
	case !e.Stand:
		return []check.Finding{check.Problem("start Caddy: it makes them within a minute; its log says why "+
			"if it cannot", "the firewall rules do not stand: workspaces that run may reach private networks and "+
			"this host; none starts before they stand")}, nil
	}
	names := make([]string, len(e.Nameservers))
	for i, a := range e.Nameservers {
		names[i] = a.String()
	}
	open := "nothing private"
	if len(names) > 0 {
		open = "port 53 of " + strings.Join(names, ", ")
	}
	return []check.Finding{check.OK("the firewall rules stand; for names they leave open %s", open)}, nil
}

func (c checks) checkIsolation(ctx context.Context) ([]check.Finding, error) {
	n, err := c.Network(ctx)
	if err != nil {
		return nil, err
	}
	if !n.Exists {
		return []check.Finding{check.OK("nothing to look at before the network is made")}, nil
	}
	open, err := c.Reached(ctx)
	if err != nil {
		return nil, err
	}
	var found []check.Finding
	for _, address := range slices.Sorted(maps.Keys(open)) {
		found = append(found, check.Problem("set egress enforce require, and see the line of egress",
			"a workspace can connect to %s: %s", address, open[address]))
	}
	if len(found) == 0 {
		found = []check.Finding{check.OK("a workspace reaches neither the metadata service nor another container nor " +
			"the usual ports of the engine's host")}
	}
	return found, nil
}

func (c checks) checkDisk(ctx context.Context) ([]check.Finding, error) {
	err := c.DiskLimit(ctx)
	if c.opts.DiskBytes == 0 {
		return []check.Finding{unlimited("disk", "what workspaces write outside their homes is not limited", err)}, nil
	}
	if err != nil {
		return nil, err
	}
	return []check.Finding{check.OK("the engine limits what workspaces write outside their homes")}, nil
}

func (c checks) checkHome(ctx context.Context) ([]check.Finding, error) {
	before, err := c.HomeLimit(ctx)
	if c.opts.HomeBytes == 0 {
		return []check.Finding{unlimited("home", "homes are not limited", err)}, nil
	}
	if err != nil {
		return nil, err
	}
	found := []check.Finding{check.OK("the engine limits new homes")}
	if before > 0 {
		found = append(found, check.Warning("archive those workspaces: their homes are limited when they are restored",
			"%s made before without a limit", check.Count(before, "home")))
	}
	return found, nil
}

// unlimited warns about a limit that is not set. tried is the engine's answer when the doctor tries such a limit.
func unlimited(setting, what string, tried error) check.Finding {
	switch {
	case errors.Is(tried, spec.ErrCannotLimit):
		return check.Warning("put the engine's data folder on xfs mounted with pquota, then set docker "+setting,
			"%s, and this engine cannot limit it: one workspace can fill the disk of all", what)
	case tried != nil:
		return check.Warning("set docker "+setting+", where the engine can enforce it", "%s", what)
	}
	return check.Warning("set docker "+setting+", such as 10GiB", "%s, although this engine can", what)
}

func (c checks) checkSpace(ctx context.Context) ([]check.Finding, error) {
	d, err := c.Space(ctx)
	var missing *backend.MissingImageError
	switch {
	case errors.As(err, &missing):
		return []check.Finding{check.Warning("docker pull "+missing.Image+", or make images",
			"how full the disk of the homes is cannot be asked without image %s", missing.Image)}, nil
	case err != nil:
		return nil, err
	}
	line := fmt.Sprintf("%.0f%% of the disk of the homes is in use, %s are free", d.Used()*100,
		units.BytesSize(float64(d.Free)))
	const remedy = "free space there, or make the disk larger; the settings are those of disk_pressure"
	switch {
	case c.StopAt > 0 && d.Used() >= c.StopAt:
		return []check.Finding{check.Problem(remedy, "%s: new workspaces and restores wait", line)}, nil
	case c.ArchiveAt > 0 && d.Used() >= c.ArchiveAt:
		return []check.Finding{check.Warning(remedy, "%s: the workspaces that sleep longest are archived "+
			"before their time", line)}, nil
	case c.ArchiveAt == 0 && d.Used() >= c.NearlyFull:
		return []check.Finding{check.Warning("set disk_pressure archive_at, or free space",
			"%s, and nothing makes room by itself", line)}, nil
	}
	return []check.Finding{check.OK("%s", line)}, nil
}

// mostOwners bounds how many workspaces doctor looks at.
const mostOwners = 20

func (c checks) checkOwners(ctx context.Context) ([]check.Finding, error) {
	strangers, looked, err := c.Strangers(ctx, mostOwners)
	if err != nil {
		return nil, err
	}
	var found []check.Finding
	for _, s := range strangers {
		found = append(found, check.Warning("give the workspace an image that runs as the home's owner, or change "+
			"the owner of its files on the engine's host",
			"the image of %s runs as %s, and its home belongs to %s: it cannot write there", s.Container,
			s.User, s.Owner))
	}
	if len(found) == 0 {
		found = []check.Finding{check.OK("every image can write to its home, in the %s that run",
			check.Count(looked, "workspace"))}
	}
	return found, nil
}
