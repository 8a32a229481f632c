package encryption

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"filippo.io/age"
)

// encrypted returns a text encrypted to the keys, and the key of that file.
func encrypted(t *testing.T, text string, keys ...string) ([]byte, age.Identity) {
	t.Helper()
	to, err := Recipients(keys)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w, key, err := Encrypt(&out, to)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes(), key
}

// TestKeyOfTheFile: the file's key opens that file and adds nothing to it: the header has one stanza per recipient.
func TestKeyOfTheFile(t *testing.T) {
	x, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	pq, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		keys     []string
		identity age.Identity
	}{
		"X25519":         {[]string{x.Recipient().String()}, x},
		"two of them":    {[]string{x.Recipient().String(), x.Recipient().String()}, x},
		"with ML-KEM":    {[]string{pq.Recipient().String()}, pq},
		"with a comment": {[]string{"# mine", "", x.Recipient().String()}, x},
	} {
		t.Run(name, func(t *testing.T) {
			sealed, key := encrypted(t, "content", c.keys...)
			other, otherKey := encrypted(t, "other", c.keys...)
			stanzas := 0
			for _, k := range c.keys {
				if strings.HasPrefix(k, "age1") {
					stanzas++
				}
			}
			if got := strings.Count(string(sealed[:bytes.Index(sealed, []byte("\n---"))]), "\n-> "); got != stanzas {
				t.Errorf("%d stanzas, want %d", got, stanzas)
			}
			for who, id := range map[string]age.Identity{"the file's key": key, "its recipient": c.identity} {
				r, err := Open(bytes.NewReader(sealed), id)
				if err != nil {
					t.Errorf("%s: %v", who, err)
					continue
				}
				if got, err := io.ReadAll(r); string(got) != "content" || err != nil {
					t.Errorf("%s: %q, %v", who, got, err)
				}
			}
			if _, err := Open(bytes.NewReader(other), key); err == nil {
				t.Error("it opens another file")
			}
			if _, err := Open(bytes.NewReader(sealed), otherKey); err == nil {
				t.Error("another file's key opens it")
			}
		})
	}
	mixed, err := Recipients([]string{x.Recipient().String(), pq.Recipient().String()})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := Encrypt(io.Discard, mixed); err == nil {
		t.Error("keys of both kinds are mixed")
	}
}

func TestWhatIsNotEncryptedNeedsNoKey(t *testing.T) {
	for _, text := range []string{"", "a", "age-encryption.org",
		"\x28\xb5\x2f\xfd and so on, for longer than a header"} {
		sealed, key := encrypted(t, text)
		if string(sealed) != text || key != nil {
			t.Errorf("%q became %q", text, sealed)
		}
		r, err := Open(bytes.NewReader(sealed))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(r); string(got) != text || err != nil {
			t.Errorf("%q came back as %q, %v", text, got, err)
		}
	}
	if _, err := Open(strings.NewReader(header + "\n")); !errors.Is(err, ErrLocked) {
		t.Errorf("%v", err)
	}
}
