package archive_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"filippo.io/age"
	"github.com/klauspost/compress/zstd"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// newKey returns a secret key and its public key.
func newKey(t *testing.T) (secret, public string) {
	t.Helper()
	k, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	return k.String(), k.Recipient().String()
}

// file writes a file and returns its path.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "keys.txt")
	if err := os.WriteFile(path, []byte(text), 0o400); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadKeys(t *testing.T) {
	secret1, public1 := newKey(t)
	secret2, public2 := newKey(t)
	got, err := archive.ReadKeys(file(t, "# old\n"+public1+"\n\n# new\n"+public2), file(t, secret1+"\r\n"+secret2+"\n"))
	if err != nil || !slices.Equal(got.Recipients, []string{public1, public2}) || !slices.Equal(got.Identities, []string{secret1, secret2}) {
		t.Errorf("%d, %d, %v", len(got.Recipients), len(got.Identities), err)
	}
	if err := got.Validate(); err != nil {
		t.Error(err)
	}
	if got, err := archive.ReadKeys("", ""); err != nil || len(got.Recipients)+len(got.Identities) != 0 || got.Validate() != nil {
		t.Errorf("%+v, %v", got, err)
	}
	for name, c := range map[string]struct {
		recipients, identities string
		says                   []string
	}{
		"no such file":        {"/none", "", []string{"encryption recipients", "/none"}},
		"not a public key":    {file(t, public1+"\n# x\nage1broken\n"), "", []string{"encryption recipients", "line 3", "age-keygen -y"}},
		"a secret in its way": {file(t, "\n"+secret1), "", []string{"encryption recipients", "line 2"}},
		"not a secret key":    {"", file(t, secret1+"\n"+secret2[:40]), []string{"encryption identities", "line 2", "age-keygen"}},
		"nothing":             {"", file(t, "# none yet\n"), []string{"encryption identities", "no identities"}},
		"both are wrong":      {file(t, "x"), file(t, "y"), []string{"encryption recipients", "encryption identities"}},
	} {
		_, err := archive.ReadKeys(c.recipients, c.identities)
		for _, says := range c.says {
			if err == nil || !strings.Contains(err.Error(), says) || strings.Contains(err.Error(), secret1[20:30]) || strings.Contains(err.Error(), secret2[20:30]) {
				t.Errorf("%s: %v does not say %q, or tells a secret", name, err, says)
			}
		}
	}
}

// TestSettingsValidate: keys that would make archives unreadable are refused.
func TestSettingsValidate(t *testing.T) {
	secret, public := newKey(t)
	other, otherPublic := newKey(t)
	pq, err := age.GenerateHybridIdentity()
	if err != nil {
		t.Fatal(err)
	}
	keys := func(recipients, identities []string) archive.Settings {
		return archive.Settings{Verify: contract.VerifyFull, Keys: archive.Keys{Recipients: recipients, Identities: identities}}
	}
	for name, c := range map[string]struct {
		settings archive.Settings
		says     string // "" accepts
	}{
		"defaults":                {archive.DefaultSettings(), ""},
		"checksum":                {archive.Settings{Verify: contract.VerifyChecksum}, ""},
		"no such mode":            {archive.Settings{Verify: "maybe"}, "s3 verify"},
		"a pair":                  {keys([]string{public}, []string{secret}), ""},
		"a post-quantum pair":     {keys([]string{pq.Recipient().String()}, []string{pq.String(), secret}), ""},
		"one of several":          {keys([]string{otherPublic, public}, []string{secret}), ""},
		"switched off":            {keys(nil, []string{secret, other}), ""},
		"no secret key":           {keys([]string{public}, nil), "no archive could be restored"},
		"another's secret key":    {keys([]string{public}, []string{other}), "no archive could be restored"},
		"two kinds that don't go": {keys([]string{public, pq.Recipient().String()}, []string{secret}), "encryption recipients"},
	} {
		err := c.settings.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestJobsFollowTheSettings: a job's environment and grant follow the settings at its start. A job that archives gets
// public keys, and one that restores gets secret keys. The environment contains no key.
func TestJobsFollowTheSettings(t *testing.T) {
	s := open(t, options(devenv.S3(t)))
	if env := s.JobEnv("k"); !slices.Contains(env, contract.EnvVerify+"=full") {
		t.Errorf("%q", env)
	}
	secret, public := newKey(t)
	_, other := newKey(t)
	s.Apply(archive.Settings{Verify: contract.VerifyChecksum, Keys: archive.Keys{Recipients: []string{public, other}, Identities: []string{secret}}})
	env := s.JobEnv("k")
	if text := strings.Join(env, " "); !slices.Contains(env, contract.EnvVerify+"=checksum") || strings.Contains(text, secret) || strings.Contains(text, public) {
		t.Errorf("%q", env)
	}
	for kind, want := range map[workspace.JobKind]contract.Grant{
		workspace.JobArchive: {Recipients: []string{public, other}}, workspace.JobRestore: {Identities: []string{secret}},
	} {
		g, err := s.Grant(t.Context(), kind, "k", time.Hour)
		if err != nil || !slices.Equal(g.Recipients, want.Recipients) || !slices.Equal(g.Identities, want.Identities) {
			t.Errorf("%s: %v, %v", kind, g.Recipients, err)
		}
	}
}

// TestCreateEmptyEncrypted also lets several processes make the same archive at once: the archive and its marker always
// come from one process.
func TestCreateEmptyEncrypted(t *testing.T) {
	secret, public := newKey(t)
	settings := archive.Settings{Verify: contract.VerifyFull, Keys: archive.Keys{Recipients: []string{public}, Identities: []string{secret}}}
	for name, before := range map[string]string{"nothing there": "", "something else": "half of somethi"} {
		t.Run(name, func(t *testing.T) {
			b := fresh(t)
			if before != "" {
				b.put("archives/"+key, before)
			}
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				s := open(t, options(b.s3))
				s.Apply(settings)
				wg.Go(func() { errs[i] = s.CreateEmpty(t.Context(), key) })
				if before != "" {
					wg.Wait() // only one process replaces existing content
				}
			}
			wg.Wait()
			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			b.requireChecksum(key)
			id, err := age.ParseX25519Identity(secret)
			if err != nil {
				t.Fatal(err)
			}
			packed, err := age.Decrypt(strings.NewReader(b.get("archives/"+key)), id)
			if err != nil {
				t.Fatal(err)
			}
			dec, err := zstd.NewReader(packed)
			if err != nil {
				t.Fatal(err)
			}
			defer dec.Close()
			if got, err := io.ReadAll(dec); err != nil || !bytes.Equal(got, make([]byte, 1024)) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
}
