package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// ownNamespace is the file with a Pod's own namespace.
const ownNamespace = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// PodNamespace returns the namespace of the Pod that this process runs in, or "" outside a Pod.
func PodNamespace() string {
	text, _ := os.ReadFile(ownNamespace)
	return strings.TrimSpace(string(text))
}

// settings are the cluster's address, the credential and the namespace.
type settings struct {
	*rest.Config
	namespace string
	// credential describes the credential and how to renew it.
	credential string
}

// load finds the settings as Kubernetes' own tools do.
func (o Options) load() (settings, error) {
	if o.Kubeconfig == "" && o.Context == "" {
		s, err := inCluster()
		if !errors.Is(err, rest.ErrNotInCluster) {
			s.namespace = cmp.Or(o.Namespace, s.namespace)
			return s, err
		}
	}
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = o.Kubeconfig
	rules.WarnIfAllMissing = false
	config := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{
		CurrentContext: o.Context,
	})
	c, err := config.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return settings{}, fmt.Errorf("no Kubernetes cluster is set: this is no Pod of one, and %s does not exist or "+
			"is empty; set kubeconfig, or KUBECONFIG in the environment",
			strings.Join(rules.Precedence, ", "))
	}
	if err != nil {
		return settings{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	namespace, _, err := config.Namespace()
	if err != nil {
		return settings{}, fmt.Errorf("reading the namespace of the kubeconfig's context: %w", err)
	}
	all, err := config.RawConfig()
	if err != nil {
		return settings{}, fmt.Errorf("reading the kubeconfig: %w", err)
	}
	return settings{Config: c, namespace: cmp.Or(o.Namespace, namespace), credential: credential(all, o.Context)}, nil
}

// inCluster returns the settings of a Pod's service account. The account's token changes: the kubelet writes new tokens
// into the file, which is read every minute.
func inCluster() (settings, error) {
	c, err := rest.InClusterConfig()
	if err != nil {
		if errors.Is(err, rest.ErrNotInCluster) {
			return settings{}, err
		}
		return settings{}, fmt.Errorf("reading the token of the Pod's service account: %w; the Pod needs "+
			"automountServiceAccountToken, or set kubeconfig", err)
	}
	namespace, err := os.ReadFile(ownNamespace)
	if err != nil {
		return settings{}, fmt.Errorf("reading the Pod's namespace: %w; set namespace", err)
	}
	return settings{
		Config: c, namespace: strings.TrimSpace(string(namespace)),
		credential: "the token of the Pod's service account in " + c.BearerTokenFile +
			", which the kubelet renews: check that the service account still exists, and restart the Pod if " +
			"the file is old",
	}, nil
}

// credential describes how the cluster authenticates the context's user.
func credential(all clientcmdapi.Config, context string) string {
	at := all.Contexts[cmp.Or(context, all.CurrentContext)]
	if at == nil || all.AuthInfos[at.AuthInfo] == nil {
		return "the kubeconfig's context names no user"
	}
	user := all.AuthInfos[at.AuthInfo]
	where := fmt.Sprintf(" of the user %s in %s", at.AuthInfo, cmp.Or(user.LocationOfOrigin, "the kubeconfig"))
	switch {
	case user.Exec != nil:
		return "what the command " + user.Exec.Command + " gives, the credential plugin" + where +
			": run kubectl once with that file, and sign in again as it says"
	case user.TokenFile != "":
		return "the token in " + user.TokenFile + where + ": write a new one into that file; it is read every minute"
	case user.Token != "":
		return "the token" + where + ": make a new one, such as with kubectl create token, and write it into the " +
			"file, or use tokenFile"
	case user.ClientCertificate != "" || len(user.ClientCertificateData) > 0:
		return "the client certificate" + where + ": it may have expired; renew it there"
	case user.Username != "":
		return "the name and password" + where
	}
	return "no credential" + where
}
