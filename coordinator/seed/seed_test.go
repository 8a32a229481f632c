package seed

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFixedSeedsAndANewOne(t *testing.T) {
	t.Setenv(Env, "")
	one, two := Numbers(t, 3), Numbers(t, 3)
	if len(one) != 4 || !slices.Equal(one[:3], []uint64{1, 2, 3}) || one[3] == two[3] || one[3] == 0 {
		t.Errorf("%d, and then %d", one, two)
	}
	if first, second := New(t), New(t); first == second {
		t.Error("two are the same")
	}
	t.Setenv(Env, "7")
	if got := Numbers(t, 3); !slices.Equal(got, []uint64{7}) || New(t) != 7 {
		t.Errorf("with %s=7 they are %d", Env, got)
	}
}

func TestASeedRepeatsWhatIsChosen(t *testing.T) {
	choose := func() (all []uint64) {
		Each(t, func(_ *testing.T, random *rand.Rand) { all = append(all, random.Uint64()) })
		Rapid(t, func(t *rapid.T) { all = append(all, rapid.Uint64().Draw(t, "number")) })
		return all
	}
	t.Setenv(Env, "")
	one, two := choose(), choose()
	if slices.Equal(one, two) || !slices.Equal(one[:fixed], two[:fixed]) {
		t.Errorf("without a seed: %d and %d", one, two)
	}
	t.Setenv(Env, "7")
	if one, two = choose(), choose(); !slices.Equal(one, two) || len(one) < 2 {
		t.Errorf("with a seed: %d and %d", one, two)
	}
	if given := flag.Lookup(rapidSeed).Value.String(); given != "0" {
		t.Errorf("rapid's seed stays %s", given)
	}
}

const failEnv = "CODEHUB_TEST_SEED_FAILS"

// TestThatFails is run by the next test.
func TestThatFails(t *testing.T) {
	if os.Getenv(failEnv) == "" {
		t.Skip("run by TestWhatFailsTellsHowToRepeatIt")
	}
	Each(t, func(t *testing.T, random *rand.Rand) { t.Error("chosen:", random.IntN(1000)) })
}

func TestWhatFailsTellsHowToRepeatIt(t *testing.T) {
	run := func(number string) string {
		cmd := exec.Command(os.Args[0], "-test.run=^TestThatFails$")
		cmd.Env = append(os.Environ(), failEnv+"=1", Env+"="+number)
		out, err := cmd.CombinedOutput()
		if err == nil {
			t.Errorf("it succeeds: %s", out)
		}
		return string(out)
	}
	all := run("")
	command := "make test SEED=2 ARGS='-run ^TestThatFails$ github.com/codehub/gateway/coordinator/seed'"
	want := fmt.Sprintf("chosen: %d\n", Source(2).IntN(1000))
	if strings.Count(all, "chosen: ") != fixed+1 || !strings.Contains(all, command) || !strings.Contains(all, want) {
		t.Errorf("it prints\n%s\nwant %s, %s", all, command, want)
	}
	if again := run("2"); strings.Count(again, "chosen: ") != 1 || !strings.Contains(again, want) {
		t.Errorf("it prints\n%s\nwant %s", again, want)
	}
	if wrong := run("x"); !strings.Contains(wrong, `SEED is "x"; give a number from 1 on`) {
		t.Errorf("it prints\n%s", wrong)
	}
}

// TestAThirdOfTheCases: each seed chooses a different third, in order; AllEnv chooses everything.
func TestAThirdOfTheCases(t *testing.T) {
	cases := []int{1, 2, 3, 4, 5, 6, 7}
	t.Setenv(AllEnv, "")
	seen := make(map[int]bool)
	for number := range 50 {
		t.Setenv(Env, strconv.Itoa(number+1))
		some := Third(t, cases)
		if len(some) != 3 || !slices.IsSorted(some) || !slices.Equal(some, Third(t, cases)) {
			t.Errorf("with %s=%d: %d", Env, number+1, some)
		}
		for _, c := range some {
			seen[c] = true
		}
	}
	if len(seen) != len(cases) {
		t.Errorf("50 seeds choose %v", seen)
	}
	if one := Third(t, cases[:1]); len(one) != 1 {
		t.Errorf("of one case, %d", one)
	}
	t.Setenv(AllEnv, "1")
	if all := Third(t, cases); !slices.Equal(all, cases) || len(Sample(t, cases, 2)) != 2 {
		t.Errorf("all are %d", all)
	}
}
