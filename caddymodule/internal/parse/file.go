package parse

import (
	"fmt"
	"os"
	"strings"
)

// File returns the content of a file if text names one, that is, if text is {file./path} and nothing else. named
// reports whether it does. Any other text is returned as it is. A file that cannot be read is an error.
func File(text string) (content string, named bool, err error) {
	path, begins := strings.CutPrefix(text, "{file.")
	path, ends := strings.CutSuffix(path, "}")
	if !begins || !ends || strings.ContainsAny(path, "{}") {
		return text, false, nil
	}
	read, err := os.ReadFile(path)
	if err != nil {
		return "", true, fmt.Errorf("%w: correct the path in {file.…}, or write the file, which may be empty", err)
	}
	return strings.TrimSpace(string(read)), true, nil
}
