package main

import (
	"fmt"
	"os"
	"strings"

	"filippo.io/age"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/encryption"
)

// keys encrypt and decrypt archives.
type keys struct {
	// From the environment: see contract.EnvAgeRecipients.
	recipientsText, identityFile string

	recipients []age.Recipient
	identities []age.Identity
}

// add reads the keys of the grant, which may be nil, and takes missing ones from the environment. Its errors contain no
// key.
func (k *keys) add(grant *contract.Grant) error {
	var recipients, identities []string
	if grant != nil {
		recipients, identities = grant.Recipients, grant.Identities
	}
	if len(recipients) == 0 && k.recipientsText != "" {
		recipients = strings.Split(k.recipientsText, "\n")
	}
	if len(identities) == 0 && k.identityFile != "" {
		text, err := os.ReadFile(k.identityFile)
		if err != nil {
			return fmt.Errorf("%s: %w", contract.EnvAgeIdentityFile, err)
		}
		identities = strings.Split(string(text), "\n")
	}
	var err error
	if k.recipients, err = encryption.Recipients(recipients); err != nil {
		return fmt.Errorf("the keys to encrypt to: %w", err)
	}
	if k.identities, err = encryption.Identities(identities); err != nil {
		return fmt.Errorf("the keys to decrypt with: %w", err)
	}
	return nil
}
