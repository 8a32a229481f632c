// Command devenv does what the Makefile's targets need: see usage.
package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/run"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

const usage = `usage: devenv COMMAND

  run         run CodeHub with private servers, until Ctrl-C
  build       build ./caddy from xcaddy.json, unless it is up to date
  images      build the container images, and print their references
  test ARGS   install what the tests need, hold a Docker engine, run "go test ARGS",
              and check that nothing is left
  docker CMD  run a command with DOCKER_HOST set to an engine, started if none answers
  layout      check what is at the top level of the repository
  staticcheck ARGS
              run the pinned staticcheck, built into the cache the first time
`

func main() {
	// SIGHUP: the terminal was closed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second Ctrl-C ends this process at once; what it started still ends in order.
	context.AfterFunc(ctx, stop)
	err := dispatch(ctx, os.Args[1:])
	var exit *exec.ExitError
	switch {
	case err == nil:
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		os.Exit(exit.ExitCode()) // the command has said what is wrong
	default:
		fmt.Fprintln(os.Stderr, "devenv:", err)
		os.Exit(1)
	}
}

func dispatch(ctx context.Context, args []string) error {
	if len(args) == 0 {
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
	}
	root, err := image.Root()
	if err != nil {
		return err
	}
	switch command, rest := args[0], args[1:]; command {
	case "run":
		return run.Run(ctx, root, os.Stdout)
	case "build":
		return build(ctx, root)
	case "images":
		return images(ctx, root)
	case "test":
		return test(ctx, root, rest)
	case "docker":
		return withDocker(ctx, root, rest)
	case "layout":
		return checkLayout(root)
	case "staticcheck":
		return staticcheck(ctx, root, rest)
	default:
		fmt.Fprint(os.Stderr, usage)
		os.Exit(2)
		return nil
	}
}

func build(ctx context.Context, root string) error {
	start := time.Now()
	var log bytes.Buffer
	result, err := caddybuild.Build(ctx, root, &log)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, log.String())
	}
	if !result.New {
		fmt.Println("./caddy is up to date")
		return nil
	}
	fmt.Printf("built ./caddy in %.1f s\n", time.Since(start).Seconds())
	return nil
}

func images(ctx context.Context, root string) error {
	host, err := server.Docker(ctx)
	if err != nil {
		return err
	}
	b, err := image.NewBuilder(ctx, host, root)
	if err != nil {
		return err
	}
	defer b.Close()
	for _, one := range []func(context.Context) (image.Built, error){b.StorageJob, b.Terminal} {
		built, err := one(ctx)
		if err != nil {
			return err
		}
		fmt.Println(built.Ref)
	}
	return nil
}

// withDocker runs a command while this process holds an engine for it.
func withDocker(ctx context.Context, root string, argv []string) error {
	host, err := server.Docker(ctx)
	if err != nil {
		return err
	}
	return runCommand(ctx, root, []string{"DOCKER_HOST=" + host}, argv)
}

// staticcheckVersion is pinned, because a newer one finds new faults in old code.
const staticcheckVersion = "v0.8.2"

func staticcheck(ctx context.Context, root string, args []string) error {
	path, err := server.GoInstall(ctx, "honnef.co/go/tools/cmd/staticcheck", staticcheckVersion)
	if err != nil {
		return err
	}
	return runCommand(ctx, root, nil, append([]string{path}, args...))
}

// runCommand runs a command in the foreground. On Ctrl-C it is waited for: the
// terminal has told it as well.
func runCommand(ctx context.Context, root string, env, argv []string) error {
	if len(argv) == 0 {
		return errors.New("there is no command to run")
	}
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), env...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd.Run()
}
