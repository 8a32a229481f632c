package server

import (
	"fmt"
	"os"
	"path/filepath"
)

// systemPath is where programs of the system are, also those that only root has in PATH.
const systemPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// find returns the path of the first of the programs that is in PATH or where systems
// keep programs.
func find(names ...string) (string, error) {
	for _, name := range names {
		for _, dir := range filepath.SplitList(os.Getenv("PATH") + ":" + systemPath) {
			if path := filepath.Join(dir, name); isExecutable(path) {
				return path, nil
			}
		}
	}
	return "", fmt.Errorf("%s is not installed", names[0])
}

func isExecutable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}
