package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/codehub/gateway/coordinator/devenv/internal/install"
	"github.com/codehub/gateway/coordinator/devenv/server"
)

// testOnCluster is [test] on a Kubernetes cluster. It runs in this machine's network, from which the cluster can be
// reached. The engine that builds the images has a network of its own.
func testOnCluster(ctx context.Context, root string, args []string) (err error) {
	home, _ := os.UserHomeDir() // "" is a path that is not there
	kubeconfig := cmp.Or(os.Getenv("CODEHUB_TEST_KUBECONFIG"), os.Getenv("KUBECONFIG"),
		filepath.Join(home, ".kube", "config"))
	if kubeconfig, err = filepath.Abs(kubeconfig); err == nil {
		_, err = os.Stat(kubeconfig)
	}
	if err != nil {
		return fmt.Errorf("looking for a cluster: %w; set CODEHUB_TEST_KUBECONFIG", err)
	}
	if err := os.Setenv("CODEHUB_TEST_KUBECONFIG", kubeconfig); err != nil {
		return err
	}
	if _, err := server.BuildHelm(ctx); err != nil {
		return err
	}
	if err := chooseLoad(kubeconfig); err != nil {
		return err
	}
	if os.Getenv("DOCKER_HOST") != "" {
		return test(ctx, root, commandTest, args)
	}
	if err := install.Ensure(ctx, os.Stderr, "docker.io", "iproute2"); err != nil {
		return err
	}
	storage, err := server.Scratch(false)
	if err != nil {
		return err
	}
	engine, err := server.StartEngine(storage, true)
	if err != nil {
		return err
	}
	if err := os.Setenv("DOCKER_HOST", engine.Host); err != nil {
		return errors.Join(err, engine.Stop())
	}
	return errors.Join(test(ctx, root, commandTest, args), engine.Stop())
}

// chooseLoad makes sure that there is a command that brings images to the cluster's nodes.
func chooseLoad(kubeconfig string) error {
	const variable = "CODEHUB_TEST_K8S_LOAD"
	if os.Getenv(variable) != "" {
		return nil
	}
	config, err := clientcmd.LoadFromFile(kubeconfig)
	if err != nil {
		return fmt.Errorf("reading the kubeconfig: %w", err)
	}
	name, isKind := strings.CutPrefix(config.CurrentContext, "kind-")
	if !isKind {
		return fmt.Errorf("the context %q is not kind's: set LOAD to the command that brings an image of the "+
			"Docker engine at DOCKER_HOST to the cluster's nodes, such as LOAD='minikube image load'",
			config.CurrentContext)
	}
	return os.Setenv(variable, "kind load docker-image --name "+name)
}
