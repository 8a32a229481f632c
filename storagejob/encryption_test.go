package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/codehub/gateway/storagejob/contract"
)

// TestEncryption: each recipient's key, and nothing else, opens an encrypted archive. An unencrypted one needs no key.
func TestEncryption(t *testing.T) {
	first, second, other := identity(t), identity(t), identity(t)
	from := home(t, 3<<20)
	want := listing(t, from)
	for name, c := range map[string]struct {
		encrypt, decrypt string
		opens            bool
	}{
		"its key":                         {first.recipient(), first.identity(), true},
		"one of two recipients":           {first.recipient(second), first.identity(), true},
		"the other one":                   {first.recipient(second), second.identity(), true},
		"not encrypted, no key":           {contract.EnvAgeRecipients + "=", contract.EnvAgeIdentityFile + "=", true},
		"not encrypted, but there is one": {contract.EnvAgeRecipients + "=", first.identity(), true},
		"another user's key":              {first.recipient(), other.identity(), false},
		"no key":                          {first.recipient(), contract.EnvAgeIdentityFile + "=", false},
	} {
		t.Run(name, func(t *testing.T) {
			b, to := newBench(t), home(t, 3000)
			before := listing(t, to)
			if code, res := b.run("archive", from, c.encrypt); code != contract.ExitOK {
				t.Fatalf("exit code %d, %+v", code, res)
			}
			if !c.opens {
				res := b.fails(contract.ExitLocked, "restore", to, c.decrypt)
				for _, says := range []string{"keys that this server does not have", "encryption identities", "lost"} {
					if !strings.Contains(res.Error, says) {
						t.Errorf("the error does not say %q: %s", says, res.Error)
					}
				}
				requireSame(t, before, to)
				if _, there := b.get(b.key); !there {
					t.Error("the archive is gone")
				}
				return
			}
			if code, res := b.run("restore", to, c.decrypt); code != contract.ExitOK {
				t.Fatalf("exit code %d, %+v", code, res)
			}
			requireSame(t, want, to)
		})
	}
}

// TestRotation adds a new recipient, archives again, and removes the old recipient. Each archive opens with the keys
// that were in use when it was made, and the newest one with the new key alone.
func TestRotation(t *testing.T) {
	retired, current := identity(t), identity(t)
	b, volume := newBench(t), home(t, 100_000)
	want := listing(t, volume)
	restores := func(key string, keys ...keyFile) int {
		file := filepath.Join(t.TempDir(), "keys.txt")
		var text string
		for _, k := range keys {
			text += "# one of several\n" + k.key.String() + "\n"
		}
		must(t, os.WriteFile(file, []byte(text), 0o600))
		to := home(t, 3000)
		code, _ := b.run("restore", to, contract.EnvAgeIdentityFile+"="+file,
			contract.EnvArchiveURL+"="+contract.ArchiveURL(b.bucket, key))
		if code == contract.ExitOK {
			requireSame(t, want, to)
		}
		return code
	}
	for key, recipients := range map[string]string{"old": retired.recipient(), "both": retired.recipient(current),
		"new": current.recipient()} {
		if code, res := b.run("archive", volume, recipients,
			contract.EnvArchiveURL+"="+contract.ArchiveURL(b.bucket, key)); code != contract.ExitOK {
			t.Fatalf("%s: %+v", key, res)
		}
	}
	for _, c := range []struct {
		key  string
		keys []keyFile
		want int
	}{
		{"old", []keyFile{current, retired}, contract.ExitOK},
		{"both", []keyFile{current, retired}, contract.ExitOK},
		{"new", []keyFile{current, retired}, contract.ExitOK},
		{"old", []keyFile{current}, contract.ExitLocked},
		{"both", []keyFile{current}, contract.ExitOK},
		{"new", []keyFile{current}, contract.ExitOK},
		{"new", []keyFile{retired}, contract.ExitLocked},
	} {
		if got := restores(c.key, c.keys...); got != c.want {
			t.Errorf("archive %s with %d keys: exit code %d, want %d", c.key, len(c.keys), got, c.want)
		}
	}
}

// TestEncryptedArchiveOpensWithoutUs: an archive is age around zstd around tar.
func TestEncryptedArchiveOpensWithoutUs(t *testing.T) {
	b, id := newBench(t), identity(t)
	if code, res := b.run("archive", home(t, 100_000), id.recipient()); code != contract.ExitOK {
		t.Fatalf("%+v", res)
	}
	content, _ := b.get(b.key)
	packed, err := age.Decrypt(bytes.NewReader(content), id.key)
	must(t, err)
	dec, err := zstd.NewReader(packed)
	must(t, err)
	defer dec.Close()
	start := make([]byte, 512)
	if _, err := dec.Read(start); err != nil || string(start[257:262]) != "ustar" {
		t.Errorf("it begins with %q, %v", start, err)
	}
}

// TestDamagedEncryptedArchive: damage anywhere is never mistaken for a key that does not fit.
func TestDamagedEncryptedArchive(t *testing.T) {
	b, id, to := newBench(t), identity(t), home(t, 3000)
	before := listing(t, to)
	if code, res := b.run("archive", home(t, 300_000), id.recipient()); code != contract.ExitOK {
		t.Fatalf("%+v", res)
	}
	good, _ := b.get(b.key)
	head := bytes.Index(good, []byte("\n---"))
	for name, at := range map[string]int{
		"the version": 3, "the key for the recipient": head - 5, "the checksum of the header": head + 10,
		"the nonce": head + 55, "the content": len(good) / 2, "the end": len(good) - 1,
	} {
		t.Run(name, func(t *testing.T) {
			bad := bytes.Clone(good)
			bad[at] ^= 1
			b.put(b.key, bad)
			b.fails(contract.ExitCorrupted, "restore", to, id.identity())
			requireSame(t, before, to)
		})
	}
	// The checksum is correct, but the encrypted content is cut off.
	b.putMeta(good[:len(good)-20], nil)
	b.fails(contract.ExitCorrupted, "restore", to, id.identity())
	b.putMeta(append(bytes.Clone(good), "more"...), nil)
	b.fails(contract.ExitCorrupted, "restore", to, id.identity())
	requireSame(t, before, to)
}

func TestKeys(t *testing.T) {
	granted, given := identity(t), identity(t)
	grant := &contract.Grant{
		Recipients: []string{granted.key.Recipient().String()}, Identities: []string{granted.key.String()},
	}
	environment := keys{recipientsText: given.key.Recipient().String(), identityFile: given.path}
	for name, c := range map[string]struct {
		grant *contract.Grant
		keys  keys
		want  *age.X25519Identity
	}{
		"of the grant":                      {grant, keys{}, granted.key},
		"of the environment":                {nil, environment, given.key},
		"of the grant, which goes first":    {grant, environment, granted.key},
		"none":                              {nil, keys{}, nil},
		"of a grant that does not have any": {&contract.Grant{}, environment, given.key},
	} {
		err := c.keys.add(c.grant)
		want, wantKeys := "[]", "[]"
		if c.want != nil {
			want, wantKeys = fmt.Sprint([]any{c.want.Recipient()}), fmt.Sprint([]any{c.want})
		}
		if err != nil || fmt.Sprint(c.keys.recipients) != want || fmt.Sprint(c.keys.identities) != wantKeys {
			t.Errorf("%s: %v, %v, %v", name, c.keys.recipients, len(c.keys.identities), err)
		}
	}
	secret := given.key.String()
	broken := filepath.Join(t.TempDir(), "broken")
	must(t, os.WriteFile(broken, []byte("\n"+secret[:len(secret)-1]+"\n"), 0o600))
	for name, c := range map[string]struct {
		keys keys
		says string
	}{
		"a secret as public":  {keys{recipientsText: secret}, "line 1"},
		"a secret cut off":    {keys{identityFile: broken}, "line 2"},
		"no such file":        {keys{identityFile: filepath.Join(t.TempDir(), "none")}, "no such file"},
		"a file without keys": {keys{identityFile: os.DevNull}, "no identities"},
	} {
		err := c.keys.add(nil)
		if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), secret[20:40]) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
