package auth

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// production holds the costs outside the tests.
var production = params{memory: 19 * 1024, passes: 2, threads: 1}

func TestHashesAreArgon2idInPHCForm(t *testing.T) {
	tests := current
	defer func() { current = tests }()
	current = production
	a := New(nil, Options{})
	defer a.Close()
	one, err := a.hasher.hash(t.Context(), "password")
	if err != nil {
		t.Fatal(err)
	}
	two, _ := a.hasher.hash(t.Context(), "password")
	if !strings.HasPrefix(one, "$argon2id$v=19$m=19456,t=2,p=1$") || one == two {
		t.Errorf("hashes %s and %s", one, two)
	}
	for password, want := range map[string]bool{"password": true, "Password": false, "": false} {
		if ok, err := a.hasher.verify(context.Background(), one, password); ok != want || err != nil {
			t.Errorf("verify(%q) = %v, %v", password, ok, err)
		}
	}
}

// TestVerifyAgreesWithTheReferenceImplementation uses an example from the reference implementation: argon2 "somesalt"
// -id -t 2 -m 16 -p 1 -l 32.
func TestVerifyAgreesWithTheReferenceImplementation(t *testing.T) {
	a := New(nil, Options{})
	defer a.Close()
	const reference = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	if ok, err := a.hasher.verify(t.Context(), reference, "password"); !ok || err != nil {
		t.Errorf("verify = %v, %v", ok, err)
	}
	if !outdated(reference) {
		t.Error("a hash with other costs does not count as outdated")
	}
}

func TestUnreadableHashesMatchNothing(t *testing.T) {
	a := New(nil, Options{})
	defer a.Close()
	good, err := a.hasher.hash(t.Context(), "password")
	if err != nil {
		t.Fatal(err)
	}
	part := strings.Split(good, "$")
	with := func(i int, v string) string {
		p := append([]string(nil), part...)
		p[i] = v
		return strings.Join(p, "$")
	}
	for _, bad := range []string{
		"", "$", "password", with(0, "x"), with(1, "argon2i"), with(2, "v=16"), with(3, "m=64"), with(3, "m=0,t=1,p=1"),
		with(3, "m=64,t=0,p=1"), with(3, "m=64,t=1,p=0"), with(3, "m=4294967295,t=1,p=1"), with(3, "m=64,t=4294967295,p=1"),
		with(3, "m=64,t=1,p=256"), with(4, "!"), with(4, ""), with(5, "!"), with(5, ""), good + "$",
	} {
		if ok, err := a.hasher.verify(t.Context(), bad, "password"); ok || err != nil {
			t.Errorf("verify(%q) = %v, %v", bad, ok, err)
		}
		if outdated(bad) {
			t.Errorf("%q counts as outdated", bad)
		}
	}
	// No password matches the hash that unknown users are compared with.
	for _, p := range []string{"", strings.Repeat("\x00", keyBytes)} {
		if ok, _ := a.hasher.verify(t.Context(), "", p); ok {
			t.Errorf("%q signs in without a user", p)
		}
	}
}

func TestAnOutdatedHashIsRenewedAtLogin(t *testing.T) {
	a := open(t, Options{})
	addUser(t, a, "ann")
	old := current
	defer func() { current = old }()
	current = params{memory: 128, passes: 1, threads: 1}
	token := login(t, a, "ann")
	row, err := a.store.UserByName(t.Context(), "ann")
	if err != nil || outdated(row.PasswordHash) {
		t.Errorf("hash %s, %v", row.PasswordHash, err)
	}
	wantSession(t, a, "its session continues", token, nil)
	login(t, a, "ann")
}

// TestHashingWaitsForItsTurnAndGivesUpWithTheRequest: hashing waits for its turn, and gives up when the request ends.
// That also holds for an unknown user, whose password is hashed, too, so that the response time does not reveal which
// names exist.
func TestHashingWaitsForItsTurnAndGivesUpWithTheRequest(t *testing.T) {
	a := open(t, Options{MaxHashing: 1})
	addUser(t, a, "ann")
	a.hasher.turns <- struct{}{} // another sign-in is hashing
	for _, name := range []string{"ann", "nobody", "a\x00"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if _, _, err := a.Login(ctx, name, password, Client{}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Login(%q) = %v", name, err)
		}
		cancel()
	}
	<-a.hasher.turns
	login(t, a, "ann")
}

func BenchmarkHash(b *testing.B) {
	tests := current
	defer func() { current = tests }()
	current = production
	a := New(nil, Options{})
	defer a.Close()
	for b.Loop() {
		if _, err := a.hasher.hash(b.Context(), "password"); err != nil {
			b.Fatal(err)
		}
	}
}
