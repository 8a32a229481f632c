package settings

import (
	"errors"
	"slices"
	"strings"

	"github.com/caddyserver/caddy/v2"

	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/launch"
)

// Image is an image that users may choose.
type Image struct {
	// Name is what users choose. A workspace remembers the name, so the image behind it may change:
	// each start uses the current configuration. After a name is removed, its workspaces do not
	// start until they get another image.
	Name string `json:"name"`
	// Reference is the image, such as `registry.example/team/jupyter:7.2`. Required.
	Reference Value `json:"reference,omitempty"`
	// Title is shown to users instead of the name.
	Title Value `json:"title,omitempty"`
	// Description tells users what the image is for.
	Description Value `json:"description,omitempty"`
	// Icon is the picture on its card: `code`, `notebook`, `terminal`, `database`, `python`,
	// `go`, `node`, `java`, `rust` or `box`. Default: the one that fits the name.
	Icon Value `json:"icon,omitempty"`
	// Port is the port that the application inside listens on. Default: the
	// backend's workspace_port.
	Port Value `json:"port,omitempty"`
	// KeepPrefix is for an application that must know the path it is served at, such as
	// Jupyter: with workspace_url `path`, requests keep `/w/{id}`, and the container learns
	// it as CODEHUB_WORKSPACE_BASE_PATH.
	KeepPrefix bool `json:"keep_prefix,omitempty"`
	// Git is for an image that clones the repository at the address in CODEHUB_GIT_URL. Users can
	// then name a repository when they create a workspace.
	Git bool `json:"git,omitempty"`
	// Command replaces the image's command. `$(CODEHUB_WORKSPACE_BASE_PATH)` and the like are
	// replaced by the variables of every workspace's container: CODEHUB_WORKSPACE_ID, _NAME, _URL
	// and _BASE_PATH.
	Command []string `json:"command,omitempty"`
}

// imageRemedy says what to write when an image is missing.
const imageRemedy = "write which image it is, such as registry.example/team/image:1.0"

// table lists the settings of the image that have one value. The resolved values go to r.
func (i *Image) table(r *launch.Image) []Setting {
	name := "images " + i.Name + " "
	return []Setting{
		{name + "reference", &i.Reference, "", imageRemedy, parse.Text(&r.Reference, launch.CheckReference)},
		{name + "title", &i.Title, "", "", parse.Text(&r.Title, launch.CheckTitle)},
		{name + "description", &i.Description, "", "", parse.Text(&r.Description)},
		{name + "icon", &i.Icon, "", "", parse.Text(&r.Icon, launch.CheckIcon)},
		{name + "port", &i.Port, "", "", parse.Integer(&r.Port, func(string) error { return launch.CheckPort(r.Port) })},
	}
}

// resolveImages returns the configured images.
func (a *App) resolveImages(repl *caddy.Replacer) (launch.Catalog, error) {
	images := make(launch.Catalog, len(a.Images))
	var table []Setting
	for i := range a.Images {
		s := &a.Images[i]
		images[i] = launch.Image{Name: s.Name, KeepPrefix: s.KeepPrefix, Git: s.Git, Command: s.Command}
		table = append(table, s.table(&images[i])...)
	}
	if err := Resolve(table, repl); err != nil {
		return nil, err
	}
	return images, images.Validate()
}

// imageOptions are the options of an image, in the order in which messages list them.
var imageOptions = []string{"reference", "title", "description", "icon", "port", "keep_prefix", "git", "command"}

// readImages reads the block `images`, whose name is the current token.
func (a *App) readImages(p *OptionParser) {
	d := p.d
	if d.NextArg() {
		p.Errorf("%s images takes no argument, only a block: remove %q", p.what, d.Val())
		d.RemainingArgs()
	}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		image := Image{Name: d.Val()}
		if err := launch.CheckName(image.Name); err != nil {
			p.Errorf("%s images: %w", p.what, err)
		} else if slices.ContainsFunc(a.Images, func(o Image) bool { return o.Name == image.Name }) {
			p.Errorf("%s images %s is given twice: remove one", p.what, image.Name)
		}
		if d.NextArg() {
			p.Errorf("%s images %s takes no argument, only a block: remove %q", p.what, image.Name, d.Val())
			d.RemainingArgs()
		}
		p.image(&image)
		a.Images = append(a.Images, image)
	}
}

// image reads the block of one image.
func (p *OptionParser) image(image *Image) {
	d, what := p.d, "images "+image.Name+" "
	for _, s := range image.table(new(launch.Image)) {
		p.settings[s.Name] = s
	}
	flags := map[string]*bool{"keep_prefix": &image.KeepPrefix, "git": &image.Git}
	for nesting := d.Nesting(); d.NextBlock(nesting); {
		switch option := d.Val(); {
		case p.Knows(what + option):
			p.Option(what + option)
		case flags[option] != nil:
			if args := d.RemainingArgs(); len(args) > 0 {
				p.Errorf("%s %s%s takes no value: remove %q", p.what, what, option, strings.Join(args, " "))
			}
			*flags[option] = true
		case option == "command":
			if image.Command = d.RemainingArgs(); len(image.Command) == 0 {
				p.Errorf("%s %scommand takes the words of a command", p.what, what)
			}
		default:
			p.Errorf("%s %shas no option %q: write one of %s", p.what, what, option, strings.Join(imageOptions, ", "))
			d.RemainingArgs()
		}
	}
	if image.Reference == "" {
		p.errs = append(p.errs, p.d.WrapErr(errors.New(p.what+" "+what+"reference is missing: "+imageRemedy)))
	}
}
