package archive

import (
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// ParseKey is the inverse of [workspace.ID.ArchiveKey], which creates the names. It takes the name of an archive or of
// its commit marker, and returns the archive's key and workspace. ok is false for a foreign object, whose name is
// neither.
func ParseKey(object string) (key string, id workspace.ID, ok bool) {
	key = strings.TrimSuffix(object, contract.MetaSuffix)
	first, rest, _ := strings.Cut(key, "/")
	op, _, _ := strings.Cut(rest, "/")
	id, err := workspace.ParseID(first)
	if err != nil {
		return "", "", false
	}
	// An operation's id has the same format as a workspace's.
	if _, err := workspace.ParseID(op); err != nil || key != id.ArchiveKey(op) {
		return "", "", false
	}
	return key, id, true
}
