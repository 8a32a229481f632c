package archive

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/codehub/gateway/coordinator/setting"
	"github.com/codehub/gateway/storagejob/contract"
)

// Settings of a [Store] can be changed at run time with [Store.Apply].
type Settings struct {
	// Verify tells how a storage job checks that the store has kept an upload, before the archive counts:
	// [contract.VerifyFull] or [contract.VerifyChecksum]. Default: full.
	Verify string
	// Keys encrypt and decrypt archives. Default: no keys and no encryption.
	Keys Keys
}

// Keys are age's keys, each in the form of a line in its files. They go into the grant of a storage job
// ([contract.Grant]) and nowhere else: recipients for an archive, identities for a restore.
type Keys struct {
	// Recipients are public keys. A new archive is encrypted to all of them; without any, it is not encrypted.
	Recipients []string
	// Identities are secret keys, which open encrypted archives, including older ones. They MUST NOT be logged.
	Identities []string
}

// DefaultSettings are the defaults.
func DefaultSettings() Settings { return Settings{Verify: contract.VerifyFull} }

// ReadKeys reads the files with the recipients and the identities, in age's own format: one key per line, empty lines,
// and comments after #. An empty path means no keys. Its errors name the setting, the file and the line, and never
// contain a secret.
func ReadKeys(recipients, identities string) (Keys, error) {
	var k Keys
	var errs []error
	read := func(setting, path string, keys *[]string, check func([]byte) error) {
		if path == "" {
			return
		}
		text, err := os.ReadFile(path)
		if err == nil {
			if err = check(text); err != nil {
				err = fmt.Errorf("%s: %w", path, err)
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("encryption %s: %w", setting, err))
			return
		}
		for line := range strings.Lines(string(text)) {
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
				*keys = append(*keys, line)
			}
		}
	}
	read("recipients", recipients, &k.Recipients, func(text []byte) error {
		_, err := age.ParseRecipients(bytes.NewReader(text))
		if err != nil {
			err = fmt.Errorf("%w; write one public key a line, as age-keygen -y prints them (age1…)", err)
		}
		return err
	})
	read("identities", identities, &k.Identities, func(text []byte) error {
		_, err := age.ParseIdentities(bytes.NewReader(text))
		if err != nil {
			err = fmt.Errorf("%w; write one secret key a line, as age-keygen makes them (AGE-SECRET-KEY-…)", err)
		}
		return err
	})
	return k, errors.Join(errs...)
}

// Validate reports in one error everything that is wrong with the settings.
func (s Settings) Validate() error {
	var err error
	if s.Verify != contract.VerifyFull && s.Verify != contract.VerifyChecksum {
		err = setting.Errorf("s3 verify", "%q is not known: write %s or %s", s.Verify, contract.VerifyFull,
			contract.VerifyChecksum)
	}
	return errors.Join(err, s.Keys.Validate())
}

// Validate tries the keys: this process must be able to decrypt what it encrypts. Otherwise an archived workspace could
// never be restored.
func (k Keys) Validate() error {
	if _, err := k.identities(); err != nil {
		return setting.Errorf("encryption identities", "%w", err)
	}
	if len(k.Recipients) == 0 {
		return nil
	}
	sealed, err := k.encrypt(nil)
	if err != nil {
		return setting.Errorf("encryption recipients", "%w", err)
	}
	if _, err := k.decrypt(sealed); err != nil {
		return setting.Errorf("encryption identities", "none of them opens what is encrypted to encryption recipients, so "+
			"no archive could be restored: add the secret key of one of the recipients, and keep a copy of "+
			"it elsewhere")
	}
	return nil
}

// recipients returns the public keys.
func (k Keys) recipients() ([]age.Recipient, error) {
	return age.ParseRecipients(strings.NewReader(strings.Join(k.Recipients, "\n")))
}

// identities returns the secret keys, if there are any.
func (k Keys) identities() ([]age.Identity, error) {
	if len(k.Identities) == 0 {
		return nil, nil
	}
	return age.ParseIdentities(strings.NewReader(strings.Join(k.Identities, "\n")))
}

// encrypted is the beginning of every encrypted archive.
const encrypted = "age-encryption.org/v1"

// locked reports whether an archive with this beginning is encrypted and none of the keys opens it. Any other problem
// shows only when the archive is read.
func (k Keys) locked(header []byte) bool {
	if !bytes.HasPrefix(header, []byte(encrypted)) {
		return false
	}
	own, err := k.identities()
	if err != nil || len(own) == 0 {
		return true
	}
	_, err = age.Decrypt(bytes.NewReader(header), own...)
	var none *age.NoIdentityMatchError
	return errors.As(err, &none)
}
