// Package brand holds what identifies an installation on its pages: a name, a logo and a color.
//
// It owns the product's own icon, the rules for logos and colors, and the readable shades of a color. It must not know
// the pages, nor where the settings are written.
package brand

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"os"
	"strconv"
)

// LogoMax is the maximum size of a logo file, in bytes.
const LogoMax = 64 << 10

// assetPath is the prefix of the paths that clients may cache permanently.
const assetPath = "/assets/"

//go:embed icon.svg
var icon []byte

// Brand is a name, a logo, and shades of a color. It is immutable.
type Brand struct {
	// Name appears in titles and headers.
	Name string
	// IconPath is where the main site serves the logo. IconURL is a data URL that contains the logo. The pages of
	// workspaces use it, because they have other origins than the main site.
	IconPath string
	IconURL  template.URL
	// Style overrides the color of the pages. The main site serves it at StylePath. Both are empty for the product's
	// own color.
	Style     template.CSS
	StylePath string

	assets map[string]asset
}

// asset is a file of the brand that the main site serves.
type asset struct {
	body        []byte
	contentType string
}

// own is the product's own brand.
var own = func() *Brand {
	b, err := New("", nil, "")
	if err != nil {
		panic(err) // the icon is embedded
	}
	return b
}()

// New returns a brand with a name, the content of a logo, and a color. Whichever of these is empty is replaced with the
// product's own. If the logo or the color is refused, the error says which kinds of logo are accepted, or how to write
// a color.
func New(name string, logo []byte, color string) (*Brand, error) {
	b := &Brand{Name: name, assets: make(map[string]asset)}
	if name == "" {
		b.Name = "CodeHub"
	}
	if logo == nil {
		logo = icon
	}
	ext, contentType, err := kindOf(logo)
	if err != nil {
		return nil, err
	}
	b.IconPath = b.serve("brand", ext, asset{logo, contentType})
	data := "data:" + contentType + ";base64," + base64.StdEncoding.EncodeToString(logo)
	b.IconURL = template.URL(data) //nolint:gosec // an image
	if color != "" {
		c, err := parseColor(color)
		if err != nil {
			return nil, err
		}
		b.Style = template.CSS(shadesOf(c).style()) //nolint:gosec // made of numbers
		b.StylePath = b.serve("brand", ".css", asset{[]byte(b.Style), "text/css; charset=utf-8"})
	}
	return b, nil
}

// serve adds an asset and returns its path, which contains a hash of the content.
func (b *Brand) serve(name, ext string, a asset) string {
	sum := sha256.Sum256(a.body)
	path := assetPath + name + "." + hex.EncodeToString(sum[:6]) + ext
	b.assets[path] = a
	return path
}

// kindOf returns the file extension and the media type of a logo.
func kindOf(logo []byte) (ext, contentType string, err error) {
	switch {
	case len(logo) > LogoMax:
		return "", "", fmt.Errorf("it has %d bytes: make it %d bytes or less", len(logo), LogoMax)
	case bytes.HasPrefix(logo, []byte("\x89PNG\r\n\x1a\n")):
		return ".png", "image/png", nil
	case bytes.Contains(logo[:min(len(logo), 4<<10)], []byte("<svg")):
		return ".svg", "image/svg+xml", nil
	}
	return "", "", errors.New("it is neither an SVG nor a PNG: write the path of one")
}

// ReadLogo returns the content of a logo file for [New]. It does not read a file that is too large.
func ReadLogo(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: write the path of an SVG or PNG file that this process can read", err)
	}
	if !info.Mode().IsRegular() || info.Size() > LogoMax {
		return nil, fmt.Errorf("%s is not a file of %d bytes or less: write the path of a small SVG or PNG file", path, LogoMax)
	}
	logo, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: write the path of an SVG or PNG file that this process can read", err)
	}
	if _, _, err := kindOf(logo); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return logo, nil
}

// CheckColor returns an error if s is not a color.
func CheckColor(s string) error {
	_, err := parseColor(s)
	return err
}

// Serve serves the asset at the request's path and reports true, or reports false if this brand has no such asset. An
// SVG that is opened as a page of its own runs no scripts and loads nothing.
func (b *Brand) Serve(w http.ResponseWriter, r *http.Request) bool {
	a, ok := b.assets[r.URL.Path]
	if !ok {
		return false
	}
	h := w.Header()
	h.Set("Content-Type", a.contentType)
	h.Set("Content-Length", strconv.Itoa(len(a.body)))
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; sandbox")
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodHead {
		_, _ = w.Write(a.body) // fails only when the client has disconnected
	}
	return true
}

// key is the context key of a request's brand.
type key struct{}

// In returns the request with a brand. If b is nil, the request has the product's own.
func In(r *http.Request, b *Brand) *http.Request {
	if b == nil {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), key{}, b))
}

// Of returns the brand of a request, the product's own by default.
func Of(r *http.Request) *Brand {
	if b, ok := r.Context().Value(key{}).(*Brand); ok {
		return b
	}
	return own
}
