package settings

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"filippo.io/age"
	"github.com/caddyserver/caddy/v2"
)

// Keys come from files. The files' content is not part of the configuration. When it changes, a reload does not start
// another coordinator. Errors name the line of an invalid key.
func TestEncryption(t *testing.T) {
	key, err := age.GenerateX25519Identity()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) Value {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return Value(path)
	}
	a := required()
	plain := resolveOrFail(t, a)
	t.Setenv("TEST_IDENTITIES", string(write("identities", "# a key\n"+key.String()+"\n")))
	a.Encryption = Encryption{Recipients: write("recipients", key.Recipient().String()+"\n"), Identities: "{env.TEST_IDENTITIES}"}
	r := resolveOrFail(t, a)
	if k := r.Live.Archive.Keys; len(k.Recipients) != 1 || len(k.Identities) != 1 || k.Identities[0] != key.String() {
		t.Errorf("%d recipients, %d identities", len(k.Recipients), len(k.Identities))
	}
	if !reflect.DeepEqual(r.Options, plain.Options) {
		t.Error("a reload with other keys would need another coordinator")
	}
	text, err := json.Marshal(a)
	if err != nil || strings.Contains(string(text), key.String()) || strings.Contains(string(text), key.Recipient().String()) {
		t.Errorf("the configuration holds a key, %v", err)
	}

	for says, wrong := range map[string]Encryption{
		"line 2":                       {Recipients: write("wrong", "\nage1x"), Identities: a.Encryption.Identities},
		"no such file":                 {Identities: "/nowhere/keys.txt"},
		"no archive could be restored": {Recipients: a.Encryption.Recipients},
	} {
		a.Encryption = wrong
		if _, err := a.Resolve(caddy.NewReplacer()); err == nil || !strings.Contains(err.Error(), says) || !strings.Contains(err.Error(), "encryption ") {
			t.Errorf("%s: %v", says, err)
		}
	}
}
