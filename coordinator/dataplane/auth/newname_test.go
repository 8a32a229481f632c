package auth

import (
	"errors"
	"testing"

	"github.com/codehub/gateway/coordinator/store/storetest"
)

func TestANewNameKeepsToScriptsThatPeopleWriteTogether(t *testing.T) {
	for name, good := range map[string]bool{
		"ann": true, " ann ": true, "ann.o'neil+1@example.com": true,
		"café": true, "cafe\u0301": true, "42": true, "-": true,
		"홍길동": true, "hong길동韓": true, "홍길동-2@example.com": true,
		"山田たろう": true, "yamada山田タロー": true, "wang王ㄨㄤ": true,
		"Анна-2": true, "Μαρία": true, "אנה": true, "आरती": true,
		"\u0430\u0441\u0435": true, // "ace", wholly Cyrillic

		"\u0430dmin": false, "admi\u03bd": false, "ad\u043cin": false, "Анна-z": false, "Анна王": false,
		"たろう홍": false, "ㄨㄤ홍": false, "admin\u0561": false, "Αнна": false,

		"admin\u3164": false, "admin\u115f": false, "admin\uffa0": false,
		"admin\u034f": false, "admin\ufe0f": false, "admin\u2800": false,
		"two words": false, "": false, "a\u200bb": false,
	} {
		var invalid *InvalidError
		err := checkNewName(name)
		if good != (err == nil) || err != nil && (!errors.As(err, &invalid) || invalid.Field != "username") {
			t.Errorf("%+q: %v", name, err)
		}
	}
}

// TestNamesOfMixedScriptsAreForNobodyNew: no way of adding users accepts such a name. Existing users keep theirs.
func TestNamesOfMixedScriptsAreForNobodyNew(t *testing.T) {
	a, ctx := open(t, Options{}), t.Context()
	const fake, old = "\u0430dmin", "\u0430nn"
	var invalid *InvalidError
	if _, err := a.AddUser(ctx, fake, password, RoleUser); !errors.As(err, &invalid) {
		t.Errorf("added: %v", err)
	}
	if _, err := a.EnsureUser(ctx, fake, password, RoleUser); !errors.As(err, &invalid) {
		t.Errorf("by a setting: %v", err)
	}
	if _, err := a.Named(ctx, fake, true); !errors.Is(err, ErrRefusedName) || !errors.Is(err, ErrNoSession) {
		t.Errorf("by another authentication: %v", err)
	}
	for _, want := range []string{"user", "user-2"} {
		e := External{Issuer: "https://id.example", Subject: want, Name: fake, Create: true}
		if _, u, err := a.SignInExternal(ctx, e, Client{}); err != nil || u.Username != want {
			t.Errorf("by a provider: %+v, %v", u, err)
		}
	}
	addUser(t, a, "ann")
	storetest.Exec(t, a.store, `UPDATE users SET username = '`+old+`' WHERE username = 'ann'`)
	login(t, a, old)
	if _, err := a.Named(ctx, old, true); err != nil {
		t.Errorf("a user from before: %v", err)
	}
	if err := a.SetPassword(ctx, old, password+"2"); err != nil {
		t.Errorf("the password of a user from before: %v", err)
	}
}
