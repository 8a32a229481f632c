package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/codehub/gateway/storagejob/contract"
)

// The tasks that keep an image on a cluster's node. The Helm chart calls them (prePull).
const (
	taskHold    = "hold"    // wait for a signal, in the container of any image
	taskInstall = "install" // put this program where containers of other images find it
)

// programName is the name of the installed program.
const programName = "storagejob"

// hold waits until a signal ends the process. A node pulls a container's image and keeps it while the container runs.
// The program is static, so that it runs in any image.
func hold(ctx context.Context) int {
	<-ctx.Done()
	return contract.ExitOK
}

// install copies the running program into a folder as [programName], executable by every user. An unfinished copy never
// has that name.
func install(args []string, stderr io.Writer) int {
	if len(args) != 1 {
		fmt.Fprintf(stderr, "storagejob: %s takes one folder\nTry: storagejob --help\n", taskInstall)
		return contract.ExitUsage
	}
	if err := copyProgram(args[0]); err != nil {
		fmt.Fprintf(stderr, "storagejob: copying this program into %s: %v\n", args[0], err)
		return contract.ExitOther
	}
	return contract.ExitOK
}

func copyProgram(folder string) error {
	path, err := os.Executable()
	if err != nil {
		return err
	}
	from, err := os.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.CreateTemp(folder, "."+programName)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err == nil {
		err = to.Chmod(0o755)
	}
	if closed := to.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(to.Name(), filepath.Join(folder, programName))
	}
	if err != nil {
		_ = os.Remove(to.Name())
	}
	return err
}
