package backend

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// CleanText makes output fit for a database and a page: valid UTF-8 without NUL, at most the first limit bytes.
func CleanText(s string, limit int) string {
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(s, ""), "\x00", "")
}

// ErrorText returns an error as a text of bounded length, for the Unknown of an object.
func ErrorText(err error) string { return CleanText(err.Error(), maxMessage) }

// maxLogs bounds the output of Logs, in bytes.
const maxLogs = 64 << 10

// EndOfLog returns the end of a container's output, which explains why the container exited.
func EndOfLog(output []byte) string {
	return CleanText(string(output[max(0, len(output)-maxLogs):]), maxLogs)
}

// NotOurs is the error for another owner's object with a name that this installation needs (SPEC 12.8).
func NotOurs(what, name string) error {
	return fmt.Errorf("%s %s exists without this installation's labels and is left alone; its name is needed", what, name)
}

// Limited is a buffer that refuses to hold more than Max bytes.
type Limited struct {
	bytes.Buffer
	Max int
}

// Write implements [io.Writer].
func (l *Limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > l.Max {
		return 0, errors.New("it prints too much")
	}
	return l.Buffer.Write(p)
}
