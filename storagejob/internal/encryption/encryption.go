// Package encryption encrypts archives with age (age-encryption.org) and opens them.
//
// It owns the differences between encrypted and plain archives, and the meaning of a missing key. It must not know
// where keys come from, and its errors contain no key.
package encryption

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"filippo.io/age"
)

// header is the beginning of every encrypted archive. A plain one begins with zstd's magic number.
const header = "age-encryption.org/v1"

// ErrLocked reports that an archive is encrypted and none of the given keys opens it.
var ErrLocked = errors.New("the archive is encrypted to keys that this server does not have")

// remedy is the advice for [ErrLocked].
const remedy = "add the secret key of one of its recipients to the file that the setting " +
	"encryption identities names; " +
	"if that key is lost, the archive cannot be opened"

// Recipients reads public keys, each in the form of a line in a file.
func Recipients(keys []string) ([]age.Recipient, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return age.ParseRecipients(strings.NewReader(strings.Join(keys, "\n")))
}

// Identities reads secret keys, each in the form of a line in a file.
func Identities(keys []string) ([]age.Identity, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	return age.ParseIdentities(strings.NewReader(strings.Join(keys, "\n")))
}

// Encrypt returns a writer that encrypts to the recipients, and a key that opens its output as long as this process
// lives. Without recipients, the writer passes on its input unchanged and the key is nil. Close ends the encryption and
// leaves w open.
func Encrypt(w io.Writer, to []age.Recipient) (io.WriteCloser, age.Identity, error) {
	if len(to) == 0 {
		return plain{w}, nil, nil
	}
	key := &fileKey{Recipient: to[0]}
	enc, err := age.Encrypt(w, append([]age.Recipient{key}, to[1:]...)...)
	if err != nil {
		return nil, nil, fmt.Errorf("encrypting the archive: %w", err)
	}
	return enc, key, nil
}

// plain does not encrypt.
type plain struct{ io.Writer }

// Close implements [io.Closer].
func (plain) Close() error { return nil }

// fileKey is a recipient that remembers the key of the one file encrypted to it, so that the process that made an
// archive can prove that it opens. It adds nothing to the file.
type fileKey struct {
	age.Recipient
	key []byte
}

// WrapWithLabels implements [age.RecipientWithLabels] for the recipient.
func (f *fileKey) WrapWithLabels(key []byte) ([]*age.Stanza, []string, error) {
	f.key = bytes.Clone(key)
	if r, ok := f.Recipient.(age.RecipientWithLabels); ok {
		return r.WrapWithLabels(key)
	}
	stanzas, err := f.Recipient.Wrap(key)
	return stanzas, nil, err
}

// Unwrap implements [age.Identity].
func (f *fileKey) Unwrap([]*age.Stanza) ([]byte, error) { return bytes.Clone(f.key), nil }

// Open returns the content of an archive that is encrypted to one of the keys, or not encrypted at all. The error is
// [ErrLocked] if no key fits.
func Open(r io.Reader, keys ...age.Identity) (io.Reader, error) {
	buffered := bufio.NewReader(r)
	if start, err := buffered.Peek(len(header)); err != nil || string(start) != header {
		return buffered, nil // reading it will show what is wrong
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%w: it has none; %s", ErrLocked, remedy)
	}
	content, err := age.Decrypt(buffered, keys...)
	var none *age.NoIdentityMatchError
	if errors.As(err, &none) {
		return nil, fmt.Errorf("%w; %s", ErrLocked, remedy)
	}
	if err != nil {
		return nil, fmt.Errorf("opening the encrypted archive: %w", err)
	}
	return content, nil
}
