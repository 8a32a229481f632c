package server

import "context"

// helmVersion is that of the Helm which the chart is tested with.
const helmVersion = "v4.3.1"

// BuildHelm returns the path of Helm, which is built into the cache the first time; that
// takes some minutes.
func BuildHelm(ctx context.Context) (string, error) {
	return GoInstall(ctx, "helm.sh/helm/v4/cmd/helm", helmVersion)
}
