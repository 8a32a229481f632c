package settings

import (
	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/archive"
)

// Encryption encrypts the archives with age (age-encryption.org). The files are read at the start
// and at each reload, including a reload with `--force` of an unchanged configuration; their
// content is never stored in the configuration. Without the secret keys the archives are lost.
type Encryption struct {
	// Recipients is a file with public keys, one per line. New archives are encrypted to all of
	// them; the secret key of any one opens an archive. Default: archives are not encrypted.
	Recipients Value `json:"recipients,omitempty"`
	// Identities is a file with secret keys, one per line, which only this process should be able
	// to read. A restore opens an encrypted archive with any of them. At least one must belong to a
	// recipient. Default: encrypted archives cannot be restored.
	Identities Value `json:"identities,omitempty"`
}

// keyFiles are the paths of the files.
type keyFiles struct{ recipients, identities string }

// encryptionTable lists the settings about encryption.
func (a *App) encryptionTable(r *Resolved) []Setting {
	return []Setting{
		{"encryption recipients", &a.Encryption.Recipients, "", "", parse.Text(&r.keyFiles.recipients)},
		{"encryption identities", &a.Encryption.Identities, "", "", parse.Text(&r.keyFiles.identities)},
	}
}

// readKeys reads the keys. They are not read while the Caddyfile is adapted, which may happen on
// another machine.
func (r *Resolved) readKeys() (err error) {
	r.Live.Archive.Keys, err = archive.ReadKeys(r.keyFiles.recipients, r.keyFiles.identities)
	return err
}
