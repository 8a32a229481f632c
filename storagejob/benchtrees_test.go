package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// modules creates a folder like node_modules: 40,000 files of 1 to 8 KB of text in packages.
func modules(t testing.TB) string {
	t.Helper()
	const packages, perPackage = 800, 50
	dir := t.TempDir()
	random := rand.New(rand.NewPCG(1, 2))
	for p := range packages {
		root := filepath.Join(dir, "node_modules", fmt.Sprintf("%s-%s-%d", word(random), word(random), p))
		for _, sub := range []string{"lib", "dist/esm", "dist/cjs"} {
			must(t, os.MkdirAll(filepath.Join(root, sub), 0o755))
		}
		for f := range perPackage {
			sub := []string{".", "lib", "dist/esm", "dist/cjs"}[f%4]
			path := filepath.Join(root, sub,
				fmt.Sprintf("%s%d.%s", word(random), f, []string{"js", "d.ts", "json", "md"}[f/4%4]))
			must(t, os.WriteFile(path, text(random, 1<<10+random.IntN(7<<10)), 0o644))
		}
	}
	must(t, exec.Command("chown", "-R", "1000:1000", dir).Run())
	return dir
}

// words are typical of programs; together with numbers they compress like programs.
var words = strings.Fields(`const let function return if else for while import export default from require module async await
	this new class extends static get set null undefined true false typeof instanceof throw try catch finally Object Array
	Promise Error string number boolean interface type readonly value index length key options config callback event
	listener handler request response status message data result error stream buffer parse stringify resolve reject path
	file name node element parent children render state props context update create remove assign freeze prototype`)

func word(random *rand.Rand) string { return words[random.IntN(len(words))] }

// text returns lines that look like a program, with the given size in bytes.
func text(random *rand.Rand, size int) []byte {
	var out bytes.Buffer
	for out.Len() < size {
		fmt.Fprintf(&out, "%s%s.%s(%s, %q, %d);\n", strings.Repeat("  ", random.IntN(4)),
			word(random), word(random), word(random), word(random)+" "+word(random), random.IntN(100_000))
	}
	return out.Bytes()[:size]
}

// source creates a folder with Go's sources and a git repository of them.
func source(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	script := `cp -a "$(go env GOROOT)/src" . && export HOME="$PWD" GIT_CONFIG_NOSYSTEM=1
		git init -q . && git config gc.auto 0 && git config maintenance.auto false && git add . && git -c user.name=bench -c user.email=bench@localhost commit -q -m all &&
		git repack -q -a -d --window=2 && chown -R 1000:1000 .`
	cmd := exec.Command("sh", "-euc", script)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("making a source tree: %v\n%s", err, out)
	}
	return dir
}

// blob creates a folder with one incompressible file of 1 GiB.
func blob(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	f, err := os.Create(filepath.Join(dir, "blob"))
	must(t, err)
	_, err = io.CopyN(f, rand.NewChaCha8([32]byte{1}), 1<<30)
	must(t, err)
	must(t, f.Close())
	return dir
}
