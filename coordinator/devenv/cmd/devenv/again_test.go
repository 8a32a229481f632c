package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/seed"
)

// module makes a module of packages with one test file each.
func module(t *testing.T, tests map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module example.com/m\n\ngo 1.24\n")
	for name, text := range tests {
		write(name+"/"+name+".go", "package "+name+"\n")
		if text != "" {
			write(name+"/"+name+"_test.go", "package "+name+"\n"+text)
		}
	}
	return root
}

// There are five packages. One fails in its second round, one leaves something behind in its process, one cannot be
// built, one has no tests, and one always passes.
func TestAgain(t *testing.T) {
	const record = `
import ("fmt"; "os"; "runtime"; "testing")
func TestGood(t *testing.T) {
	f, err := os.OpenFile("runs", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil { t.Fatal(err) }
	defer f.Close()
	fmt.Fprintln(f, runtime.GOMAXPROCS(0), os.Getenv("GOMAXPROCS"), os.Getenv("SEED") != "", os.Getenv("GIVEN"))
}`
	root := module(t, map[string]string{
		"good": record,
		"second": `
import ("os"; "testing")
func TestSecond(t *testing.T) {
	t.Run("sub", func(t *testing.T) {
		if os.Mkdir("one", 0o755) != nil && os.Mkdir("two", 0o755) == nil { t.Error("the second round") }
	})
}`,
		"leaves": "import \"testing\"\nvar ran int\nfunc TestLeaves(t *testing.T) { if ran++; ran > 1 { t.Fatal(\"ran before\") } }\n",
		"wrong":  "import \"testing\"\nfunc TestWrong(t *testing.T) { undefined() }\n",
		"none":   "",
	})
	var out strings.Builder
	err := repeat(t.Context(), root, append(os.Environ(), "GIVEN=x"), []string{"-rounds", "4", "-p", "2", "./..."},
		&out)
	if err == nil || err.Error() != "3 runs failed" {
		t.Errorf("it returns %v", err)
	}
	for _, want := range []string{
		"FAIL example.com/m/second: TestSecond/sub, after ",
		"TestSecond/sub of example.com/m/second failed in 1 of 4 rounds\n",
		"FAIL example.com/m/leaves: TestLeaves, after ",
		"with -cpu=2,1, load true, -shuffle and SEED ",
		"TestLeaves of example.com/m/leaves failed in 1 of 4 rounds\n",
		"example.com/m/wrong: building the tests: ",
		"undefined: undefined",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not print %q", want)
		}
	}
	for _, line := range []string{"4 of 4 0 s example.com/m/good", "4 of 4 1 s example.com/m/second",
		"0 of 4 0 s example.com/m/wrong"} {
		if !slices.ContainsFunc(strings.Split(out.String(), "\n"), func(printed string) bool {
			have := strings.Fields(printed)
			return len(have) == 7 && slices.Equal(slices.Delete(have, 4, 5), strings.Fields(line))
		}) {
			t.Errorf("the table has no line %q", line)
		}
	}
	if strings.Contains(out.String(), "m/none") {
		t.Error("a package without tests is listed")
	}
	runs, err := os.ReadFile(filepath.Join(root, "good", "runs"))
	if want := "1 1 true x\n2 2 true x\n1 1 true x\n2 2 true x\n1 2 true x\n"; err != nil || string(runs) != want {
		t.Errorf("the rounds were %q, %v; want %q", runs, err, want)
	}
	kept, err := os.ReadDir(filepath.Join(root, againDir))
	if err != nil || len(kept) != 2 || !strings.HasSuffix(kept[0].Name(), ".log") {
		t.Errorf("it keeps %v, %v; want what the failed rounds have printed", kept, err)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// Every package gets a round. Then quick packages come before expensive ones, and nothing starts that would end too
// late.
func TestWhoseTurnItIs(t *testing.T) {
	quick, dear, twice := &suite{ImportPath: "quick"}, &suite{ImportPath: "dear"}, &suite{ImportPath: "twice"}
	took := map[*suite]time.Duration{quick: time.Second, dear: 20 * time.Minute, twice: 10 * time.Second}
	r := repetition{suites: []*suite{dear, quick, twice}, rounds: 3, end: time.Now().Add(time.Hour)}
	var order []string
	for s := r.next(); s != nil; s = r.next() {
		order = append(order, s.ImportPath)
		s.running, s.runs, s.took, s.slowest = false, s.runs+1, s.took+took[s], took[s]
		r.end = r.end.Add(-took[s])
	}
	if want := "dear quick twice quick quick twice twice dear"; strings.Join(order, " ") != want {
		t.Errorf("the order is %s, want %s", order, want)
	}
	if twice.runs = 0; r.next() != twice || r.next() != nil {
		t.Error("a package is run twice at the same time")
	}
}

func TestAgainRefusesASecondOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data", "again")
	lock, err := cleanDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cleanDir(dir); err == nil || !strings.Contains(err.Error(), "another `make test-again`") {
		t.Errorf("a second one: %v", err)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "old"), nil, 0o600), lock.Close()); err != nil {
		t.Fatal(err)
	}
	if lock, err = cleanDir(dir); err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if old, err := os.ReadDir(dir); err != nil || len(old) > 0 {
		t.Errorf("the former one has left %v, %v", old, err)
	}
}

func TestSeedIsTheOneThatTestsRead(t *testing.T) {
	if seedEnv != seed.Env {
		t.Errorf("tests read %s", seed.Env)
	}
}
