package command_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/codehub/gateway/caddymodule/internal/command/commandtest"
)

// On Kubernetes there are no firewall rules to remove: the command says what to do instead, and touches no engine.
func TestEgressRemoveOnKubernetes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "Caddyfile")
	config := "{\n\tcodehub {\n\t\tdatabase postgres://db/codehub\n\t\tredis redis://redis:6379\n\t\tinstallation lab\n\t\tbackend kubernetes\n\t}\n}\n"
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	commandtest.Run(t, nil, "egress", "remove", "--config", file).Want(t, 1, "NetworkPolicies", "kubectl delete networkpolicy -l codehub.dev/installation=lab")
}
