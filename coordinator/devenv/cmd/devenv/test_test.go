package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv/image"
)

// No variable for the product reaches the tests.
func TestEnvironment(t *testing.T) {
	root, err := image.Root()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"DATABASE_URL", "S3_PATH_STYLE", "S3_BUCKET", "TTL_STANDBY_SECONDS",
		"CODEHUB_HTTP_PORT", "PGPORT", "AWS_PROFILE",
		"DOCKER_HOST", "KUBECONFIG", "CODEHUB_TEST_K8S_HOST", "SEED"} {
		t.Setenv(name, "x")
	}
	env, err := environment(root)
	if err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, variable := range env {
		if name, isX := strings.CutSuffix(variable, "=x"); isX {
			left = append(left, name)
		}
	}
	slices.Sort(left)
	if want := []string{"CODEHUB_TEST_K8S_HOST", "DOCKER_HOST", "KUBECONFIG", "SEED"}; !slices.Equal(left, want) {
		t.Errorf("the tests see %q, want %q", left, want)
	}
}

// gotestsum shows failed tests last, and no benchmarks.
func TestGoTest(t *testing.T) {
	for _, c := range []struct {
		args, want []string
	}{
		{[]string{"./..."}, []string{"gotestsum", "--format", "pkgname", "--hide-summary", "skipped", "--jsonfile-timing-events", "times", "--", "./..."}},
		{[]string{"-v", "-run", "X", "./a"},
			[]string{"gotestsum", "--format", "standard-verbose", "--hide-summary", "skipped", "--jsonfile-timing-events", "times", "--",
				"-v", "-run", "X", "./a"}},
		{[]string{"-run", "^$", "-bench", "Gateway", "./a"}, []string{"go", "test", "-run", "^$", "-bench", "Gateway", "./a"}},
		{[]string{"-bench=.", "./a"}, []string{"go", "test", "-bench=.", "./a"}},
	} {
		if got := goTest(t.Context(), "/repo", "gotestsum", "times", c.args); !slices.Equal(got.Args, c.want) ||
			got.Dir != "/repo" {
			t.Errorf("%q runs %q in %s", c.args, got.Args, got.Dir)
		}
	}
}
