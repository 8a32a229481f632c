// Package ide makes the images of real development environments, code-server, Jupyter Notebook
// and JupyterLab, for the tests with real browsers (make test-ide).
//
// A root file system is made without a container engine and kept in the user's cache. A test loads it into its engine.
// Making one takes minutes and needs the network, but only once per version of the script.
package ide

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/codehub/gateway/coordinator/devenv/internal/install"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

//go:embed rootfs.sh
var script string

// Environment is a development environment.
type Environment struct {
	// Name is the environment's name in rootfs.sh.
	Name string
	// needs are the Debian packages that the script needs.
	needs []string
	// Changes are the instructions of a Dockerfile that turn the root file system into an image. The application
	// listens on port 8080.
	Changes []string
}

// inHome are the instructions of an image whose user works in the home folder, including those that start the
// application.
func inHome(start ...string) []string {
	return append([]string{
		`ENV HOME=/home/coder USER=coder SHELL=/bin/bash LANG=C.UTF-8`, `USER 1000:1000`, `WORKDIR /home/coder`, `EXPOSE 8080`,
	}, start...)
}

// The environments.
var (
	CodeServer = Environment{"code-server", []string{"debootstrap", "npm", "g++", "make", "python3"}, inHome(
		`ENTRYPOINT ["/usr/bin/code-server"]`,
		`CMD ["--auth","none","--bind-addr","0.0.0.0:8080","--disable-telemetry","--disable-update-check",`+
			`"--disable-workspace-trust","/home/coder"]`,
	)}
	Jupyter = Environment{"jupyter", []string{"debootstrap"}, inHome(
		`ENTRYPOINT ["/bin/sh","-c","exec jupyter-notebook --no-browser --ip=0.0.0.0 --port=8080 ` +
			`--port-retries=0 --NotebookApp.token= --NotebookApp.password= ` +
			`--NotebookApp.allow_remote_access=True ` +
			`--NotebookApp.base_url=${CODEHUB_WORKSPACE_BASE_PATH:-/}"]`,
	)}
	JupyterLab = Environment{"jupyterlab", []string{"debootstrap"}, inHome(
		`ENTRYPOINT ["/bin/sh","-c","exec jupyter-lab --no-browser --ip=0.0.0.0 --port=8080 ` +
			`--port-retries=0 --IdentityProvider.token= --PasswordIdentityProvider.hashed_password= ` +
			`--ServerApp.allow_remote_access=True ` +
			`--ServerApp.base_url=${CODEHUB_WORKSPACE_BASE_PATH:-/}"]`,
	)}
)

// Prepare makes the root file system, if the user's cache does not have it. It needs root, and installs the packages
// that the script needs.
func (e Environment) Prepare(ctx context.Context, out io.Writer) error {
	path, err := e.Path()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	lock, err := server.Lock(path + ".lock")
	if err != nil {
		return err
	}
	defer lock.Close()
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if os.Getuid() != 0 {
		return errors.New("making a root file system needs root: run this as root once, or copy " + path +
			" from where that was done")
	}
	if err := install.Ensure(ctx, out, e.needs...); err != nil {
		return err
	}
	fmt.Fprintf(out, "making the root file system of %s (minutes, once)\n", e.Name)
	cmd := exec.CommandContext(ctx, "bash", "-c", script, "rootfs.sh", e.Name, path)
	cmd.Env = append(os.Environ(), "WORK="+filepath.Join(filepath.Dir(path), "work"))
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("making the root file system of %s: %w", e.Name, err)
	}
	return nil
}

// Path returns where the root file system of this version of the script is, as a tar archive.
func (e Environment) Path() (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256([]byte(script))
	return filepath.Join(base, "codehub", "ide", e.Name+"-"+hex.EncodeToString(sum[:8])+".tar"), nil
}
