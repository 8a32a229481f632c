package archive

import (
	"strings"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// ParseKey is the opposite of [workspace.ID.ArchiveKey], which makes the names. It splits an
// object's key into the archive that it belongs to and that archive's workspace. An archive and
// its commit marker belong to the same one. The result ok is false for a foreign object, which
// does not have the name of either.
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
