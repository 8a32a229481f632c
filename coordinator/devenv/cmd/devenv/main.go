// Command devenv does what the Makefile's targets need: see usage.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/codehub/gateway/coordinator/devenv/ide"
	"github.com/codehub/gateway/coordinator/devenv/image"
	"github.com/codehub/gateway/coordinator/devenv/internal/caddybuild"
	"github.com/codehub/gateway/coordinator/devenv/internal/debian"
	"github.com/codehub/gateway/coordinator/devenv/internal/install"
	"github.com/codehub/gateway/coordinator/devenv/internal/run"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

const usage = `usage: devenv COMMAND

  run         run CodeHub with private servers, until Ctrl-C
  build       build ./caddy from xcaddy.json
  contents DIR
              write what the images of an installation have in them into folders
  sbom        build Caddy and the storage job as they are shipped, write their bills of materials
              and the texts of their licences to .codehub/dist, print every module with its
              licence, and fail if one is not allowed
  deb         build the Debian package, in .codehub/dist
  reproduce   build the commit twice, in two folders and with two caches, and compare
  images      build the container images for workspaces and jobs on the Docker engine that
              answers, and print their references
  image       build those of the gateway and of storage jobs there, and print also the
              references that have the version as their tag
  test ARGS   install what the tests need, run "go test ARGS" with a Docker engine in a
              network namespace of their own, and check that nothing is left; with
              DOCKER_HOST set, run them here and on that engine
  test-again ARGS
              run the tests of packages again and again in the same place, shuffled, with one
              processor and two, and under load, and print how often which of them failed;
              "devenv test-again -h" lists the flags
  test-k8s ARGS
              the same on the Kubernetes cluster of CODEHUB_TEST_KUBECONFIG, or else of
              KUBECONFIG, and in this machine's network; a Docker engine only builds images,
              which the command CODEHUB_TEST_K8S_LOAD brings to the nodes
  test-ide ARGS
              the same with the images of code-server and Jupyter Notebook, which it
              makes as root the first time
  test-systemd ARGS
              the same with what runs systemd in a container of this machine's files, as root
  bench-archive ARGS
              the same with the programs that the storage job is compared with
`

func main() {
	// SIGHUP: the terminal was closed.
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	// A second Ctrl-C ends this process immediately; its children still end in an orderly way.
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
		args = []string{""}
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
	case "contents":
		if len(rest) != 1 {
			return errors.New("write contents and a folder")
		}
		return image.Contents(ctx, root, rest[0])
	case "sbom":
		return bills(ctx, root)
	case "deb":
		path, err := debian.Build(ctx, root, filepath.Join(root, ".codehub", "dist"))
		if err == nil {
			fmt.Println(path)
		}
		return err
	case "reproduce":
		return reproduce(ctx, root)
	case "images":
		return images(ctx, root, image.StorageJob, image.Terminal)
	case "image":
		return releaseImages(ctx, root)
	case commandTest, commandAgain:
		return test(ctx, root, command, rest)
	case "test-k8s":
		return testOnCluster(ctx, root, rest)
	case "test-ide":
		for _, e := range []ide.Environment{ide.CodeServer, ide.Jupyter, ide.JupyterLab} {
			if err := e.Prepare(ctx, os.Stderr); err != nil {
				return err
			}
		}
		return test(ctx, root, commandTest, append([]string{"-tags", "ide"}, rest...))
	case "test-systemd":
		if err := install.Ensure(ctx, os.Stderr, "systemd-container", "dbus", "git"); err != nil {
			return err
		}
		return test(ctx, root, commandTest, append([]string{"-tags", "systemd"}, rest...))
	case "bench-archive":
		if err := install.Ensure(ctx, os.Stderr, "zstd", "rclone", "rsync", "git"); err != nil {
			return err
		}
		return test(ctx, root, commandTest, rest)
	default:
		fmt.Fprint(os.Stderr, usage)
		return errors.New("unknown command")
	}
}

func build(ctx context.Context, root string) error {
	start := time.Now()
	if err := caddybuild.Build(ctx, root); err != nil {
		return err
	}
	fmt.Printf("built ./caddy in %.1f s\n", time.Since(start).Seconds())
	return nil
}

func images(ctx context.Context, root string, which ...image.Image) error {
	host, err := server.AnsweringEngine(ctx)
	if err != nil {
		return err
	}
	for _, i := range which {
		ref, err := i.Build(ctx, host, root)
		if err != nil {
			return err
		}
		fmt.Println(ref)
	}
	return nil
}

// releaseImages builds the images of the Helm chart. It prints their references twice: first with the tag that changes
// with their content, then with the release's tag.
func releaseImages(ctx context.Context, root string) error {
	host, err := server.AnsweringEngine(ctx)
	if err != nil {
		return err
	}
	refs, err := image.BuildTogether(ctx, host, root, image.Gateway, image.StorageJob)
	if err != nil {
		return err
	}
	for _, ref := range append(refs, image.Gateway.Tag(), image.StorageJob.Tag()) {
		fmt.Println(ref)
	}
	return nil
}

// command is a command in the foreground. On Ctrl-C, devenv only waits for the command to end: the command has received
// the signal, too, from the terminal or the supervisor.
func command(ctx context.Context, root, name string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = root
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	return cmd
}
