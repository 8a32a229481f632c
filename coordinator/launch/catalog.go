package launch

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/distribution/reference"
)

// DefaultName is the name of the only image if none is configured.
const DefaultName = "default"

// Image is an image that users may choose.
type Image struct {
	// Name is what users choose; [CheckName] defines which names are possible.
	Name string
	// Reference is what the container engine runs; empty means the engine's default.
	Reference string
	// Title is what users see instead of the name; empty means the name.
	Title string
	// Description tells users what the image is for.
	Description string
	// Icon is the image's picture, one of [Icons]; if empty, the page chooses one by the name.
	Icon string
	// Port is the port on which its application listens; 0 means the engine's default.
	Port int
	// KeepPrefix matters if workspaces have no hosts of their own. It says that the image's application then serves
	// below the workspace's path, which is in CODEHUB_WORKSPACE_BASE_PATH.
	KeepPrefix bool
	// Git says that the image clones the repository in CODEHUB_GIT_URL into an empty project.
	Git bool
	// Command replaces the image's command. $(NAME) stands for one of the variables CODEHUB_…, as in Kubernetes; empty
	// keeps the image's command.
	Command []string
}

// Catalog contains the images from which users choose. The first one is the default for workspaces that name none.
type Catalog []Image

// Default returns the catalog if it has images, and otherwise a catalog with a single image named [DefaultName].
func (c Catalog) Default(reference string, port int) Catalog {
	if len(c) > 0 {
		return c
	}
	return Catalog{{Name: DefaultName, Reference: reference, Port: port}}
}

// Find returns the image with that name; the empty name means the default.
func (c Catalog) Find(name string) (Image, bool) {
	if name == "" && len(c) > 0 {
		return c[0], true
	}
	at := slices.IndexFunc(c, func(i Image) bool { return i.Name == name })
	if at < 0 {
		return Image{}, false
	}
	return c[at], true
}

// Names returns the names, the default first.
func (c Catalog) Names() []string {
	names := make([]string, len(c))
	for i, image := range c {
		names[i] = image.Name
	}
	return names
}

// References returns the references of the images, in the same order.
func (c Catalog) References() []string {
	references := make([]string, len(c))
	for i, image := range c {
		references[i] = image.Reference
	}
	return references
}

// resolve returns the image of a workspace. Its row contains the image's name, a reference, or an empty text, which
// means the default image.
func (c Catalog) resolve(ref string) (Image, error) {
	if image, ok := c.Find(ref); ok {
		return image, nil
	}
	if ref == "" || !IsReference(ref) {
		return Image{}, fmt.Errorf("the image %q is not in the setting images: choose another one for the workspace, "+
			"or add it again; there are %s",
			ref, strings.Join(c.Names(), ", "))
	}
	return Image{Reference: ref}, nil
}

// IsReference reports whether a text can only be the reference of an image, because it contains a character that names
// must not contain. So after a name was removed from the settings, it is never taken for a reference to someone else's
// image in a public registry.
func IsReference(s string) bool { return strings.ContainsAny(s, "/:@") }

var nameForm = regexp.MustCompile(`^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$`)

// CheckName returns an error unless the name is valid for an image.
func CheckName(name string) error {
	if !nameForm.MatchString(name) {
		return fmt.Errorf("%q is not a name for an image: write 1 to 63 lower-case letters, digits, '.', '_' and "+
			"'-', with a letter or digit at both ends", name)
	}
	return nil
}

// MaxTitle is the maximum length of a title, in characters.
const MaxTitle = 60

// CheckTitle returns an error unless the title is valid for an image.
func CheckTitle(title string) error {
	if utf8.RuneCountInString(title) > MaxTitle || strings.ContainsFunc(title, unicode.IsControl) {
		return fmt.Errorf("%q is not a title for a card: write one line of at most %d characters", title, MaxTitle)
	}
	return nil
}

// Icons returns the names of the available pictures.
func Icons() []string {
	return []string{"code", "notebook", "terminal", "database", "python", "go", "node", "java", "rust", "box"}
}

// CheckIcon returns an error unless there is a picture with that name.
func CheckIcon(icon string) error {
	if !slices.Contains(Icons(), icon) {
		return fmt.Errorf("%q is not an icon: write one of %s", icon, strings.Join(Icons(), ", "))
	}
	return nil
}

// CheckReference returns an error unless the container engine understands the reference.
func CheckReference(ref string) error {
	if _, err := reference.ParseNormalizedNamed(ref); err != nil {
		return fmt.Errorf("%q is not an image: write name:tag, such as registry.example/team/image:1.0", ref)
	}
	return nil
}

// CheckPort returns an error unless it is a valid port.
func CheckPort(port int) error {
	if port < 1 || port > 65535 {
		return fmt.Errorf("%d must be from 1 to 65535", port)
	}
	return nil
}

// Validate reports everything that is wrong with the images together.
func (c Catalog) Validate() error {
	var errs []error
	for i, image := range c {
		bad := func(option string, err error) {
			if err != nil {
				errs = append(errs, fmt.Errorf("images %s%s: %w", image.Name, option, err))
			}
		}
		bad("", CheckName(image.Name))
		if slices.ContainsFunc(c[:i], func(o Image) bool { return o.Name == image.Name }) {
			bad("", errors.New("is given twice: remove one"))
		}
		if image.Reference == "" {
			bad(" reference", errors.New("is missing: write which image it is, such as "+
				"registry.example/team/image:1.0"))
		} else {
			bad(" reference", CheckReference(image.Reference))
		}
		bad(" title", CheckTitle(image.Title))
		if image.Icon != "" {
			bad(" icon", CheckIcon(image.Icon))
		}
		if image.Port != 0 {
			bad(" port", CheckPort(image.Port))
		}
	}
	return errors.Join(errs...)
}
