package settings

import (
	"github.com/codehub/gateway/caddymodule/internal/parse"
	"github.com/codehub/gateway/coordinator/archive"
)

// Encryption encrypts the archives with age (age-encryption.org). The files are read
// at the start and at each reload, also a reload with `--force` of an unchanged
// configuration; their content is never stored with it. Without the secret keys the
// archives are lost.
type Encryption struct {
	// Recipients is a file with public keys, one a line. New archives are encrypted to all of
	// them; each opens an archive alone. Default: archives are not encrypted.
	Recipients Value `json:"recipients,omitempty"`
	// Identities is a file with secret keys, one a line, which only this process should be
	// able to read. A restore opens an encrypted archive with any of them. One of them must
	// belong to a recipient. Default: encrypted archives cannot be restored.
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

// readKeys reads the keys. That is not done while the Caddyfile is adapted, which may be on
// another machine.
func (r *Resolved) readKeys() (err error) {
	r.Live.Archive.Keys, err = archive.ReadKeys(r.keyFiles.recipients, r.keyFiles.identities)
	return err
}
