package debian

import (
	"bytes"
	"compress/gzip"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
)

// source is the address of files that the package does not have.
const source = "https://github.com/codehub/gateway/blob/main/"

// relative matches a Markdown link to a file. Links to other places have a colon, or nothing before the fragment.
var relative = regexp.MustCompile(`\]\(([^)\s:#]+)[)#]`)

// stageDocuments collects the documents, and the guides with their pictures. Links lead to files of the package, or
// to the source if the package does not have them.
func stageDocuments(root, staged string) error {
	all := make(map[string]string) // where the package has a file of the repository
	for _, f := range files {
		all[f.from] = f.to
	}
	for _, pattern := range []string{"*.md", "*.png", "*.svg"} {
		guides, err := filepath.Glob(filepath.Join(root, "caddymodule", "docs", pattern))
		if err != nil {
			return err
		}
		for _, guide := range guides {
			all["caddymodule/docs/"+filepath.Base(guide)] = documents + "/guides/" + filepath.Base(guide)
		}
	}
	changes, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		return err
	}
	all["CHANGELOG.md"] = documents + "/changelog.gz"
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, _ = w.Write(changes) // a buffer takes everything
	_ = w.Close()
	if err := write(staged, documents+"/changelog.gz", packed.Bytes(), 0o644); err != nil {
		return err
	}
	for from, to := range all {
		if !strings.HasPrefix(to, documents) || from == "CHANGELOG.md" {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, from))
		if err != nil {
			return err
		}
		if path.Ext(from) == ".md" {
			text = relink(text, from, all)
		}
		if err := write(staged, to, text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// relink makes the links of a document valid from its place in the package; all maps the package's files to their
// places.
func relink(text []byte, from string, all map[string]string) []byte {
	return relative.ReplaceAllFunc(text, func(link []byte) []byte {
		address, end := string(link[len("]("):len(link)-1]), link[len(link)-1]
		at := path.Join(path.Dir(from), address)
		address = source + at
		if to, ok := all[at]; ok {
			short, err := filepath.Rel(path.Dir(all[from]), to)
			if err != nil {
				return link // both are relative, so there is none
			}
			address = filepath.ToSlash(short)
		}
		return append([]byte("]("+address), end)
	})
}
