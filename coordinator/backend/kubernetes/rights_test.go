package kubernetes_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/backend/backendtest"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/cluster"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// restrict creates an account with exactly those rights in the namespace, and returns a kubeconfig with its token.
func restrict(t *testing.T, c devenv.Cluster, account string, rights []doctor.Right) (kubeconfig string) {
	t.Helper()
	api := c.Inspect(t, "")
	create := func(path string, obj, out any) {
		t.Helper()
		if err := api.Do(t.Context(), http.MethodPost, path, nil, obj, out); err != nil {
			t.Fatal(err)
		}
	}
	type object map[string]any
	var rules, clusterRules []object
	for _, r := range rights {
		resource := r.Resource
		if r.Subresource != "" {
			resource += "/" + r.Subresource
		}
		rule := object{"apiGroups": []string{r.Group}, "resources": []string{resource}, "verbs": []string{r.Verb}}
		if r.Name != "" {
			rule["resourceNames"] = []string{r.Name}
			clusterRules = append(clusterRules, rule)
		} else {
			rules = append(rules, rule)
		}
	}
	global := c.Namespace + "-" + account
	const rbac = "rbac.authorization.k8s.io"
	subjects := []object{{"kind": "ServiceAccount", "name": account, "namespace": c.Namespace}}
	create("/api/v1/namespaces/%s/serviceaccounts", object{"apiVersion": "v1", "kind": "ServiceAccount", "metadata": object{"name": account}}, nil)
	inNamespace, everywhere := "/apis/"+rbac+"/v1/namespaces/%s/", "/apis/"+rbac+"/v1/"
	create(inNamespace+"roles", object{"apiVersion": rbac + "/v1", "kind": "Role", "metadata": object{"name": account}, "rules": rules}, nil)
	create(inNamespace+"rolebindings", object{"apiVersion": rbac + "/v1", "kind": "RoleBinding", "metadata": object{"name": account},
		"roleRef": object{"apiGroup": rbac, "kind": "Role", "name": account}, "subjects": subjects}, nil)
	if len(clusterRules) > 0 {
		for kind, obj := range map[string]object{
			"clusterroles":        {"apiVersion": rbac + "/v1", "kind": "ClusterRole", "rules": clusterRules},
			"clusterrolebindings": {"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "roleRef": object{"apiGroup": rbac, "kind": "ClusterRole", "name": global}, "subjects": subjects},
		} {
			obj["metadata"] = object{"name": global}
			create(everywhere+kind, obj, nil)
			t.Cleanup(func() {
				// t's context has ended by now.
				check(t, api.Do(context.Background(), http.MethodDelete, everywhere+kind+"/"+global, nil, nil, nil))
			})
		}
	}
	var token struct{ Status struct{ Token string } }
	create("/api/v1/namespaces/%s/serviceaccounts/"+account+"/token", object{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": object{}}, &token)

	// The API server learns of them a little later.
	for _, r := range rights {
		where := object{"verb": r.Verb, "group": r.Group, "resource": r.Resource, "subresource": r.Subresource, "name": r.Name}
		if r.Name == "" {
			where["namespace"] = c.Namespace
		}
		wait.Until(t, fmt.Sprintf("the account has its right %+v", r), func() bool {
			var review struct{ Status struct{ Allowed bool } }
			create("/apis/authorization.k8s.io/v1/subjectaccessreviews", object{"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
				"spec": object{"user": "system:serviceaccount:" + c.Namespace + ":" + account, "resourceAttributes": where}}, &review)
			return review.Status.Allowed
		})
	}

	admin, err := clientcmd.LoadFromFile(c.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	current := admin.Contexts[admin.CurrentContext]
	user := admin.AuthInfos[current.AuthInfo]
	user.ClientCertificate, user.ClientCertificateData, user.ClientKey, user.ClientKeyData = "", nil, "", nil
	user.Exec, user.AuthProvider, user.Username, user.Password, user.TokenFile = nil, nil, "", "", ""
	user.Token = token.Status.Token
	kubeconfig = t.TempDir() + "/kubeconfig"
	if err := clientcmd.WriteToFile(*admin, kubeconfig); err != nil {
		t.Fatal(err)
	}
	return kubeconfig
}

// used are the rights that the backends in this test binary have needed for their requests.
var used = struct {
	sync.Mutex
	rights map[doctor.Right]bool
}{rights: map[doctor.Right]bool{}}

// record records what rights a request needs.
func record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		used.Lock()
		for _, right := range rightsFor(r) {
			used.rights[right] = true
		}
		used.Unlock()
		return next.RoundTrip(r)
	})
}

// rightsFor returns the rights that the cluster's authorizers require for a request.
func rightsFor(r *http.Request) []doctor.Right {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	var right doctor.Right
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		right.Group, parts = parts[1], parts[3:]
	default:
		return nil // requests that every account may make, such as /version
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		parts = parts[2:]
	}
	right.Resource = parts[0]
	if len(parts) > 2 {
		right.Subresource = parts[2]
	}
	verbs := map[string]string{http.MethodPost: "create", http.MethodPatch: "patch", http.MethodPut: "update", http.MethodDelete: "delete", http.MethodGet: "get"}
	right.Verb = verbs[r.Method]
	switch {
	case r.URL.Query().Get("watch") != "":
		right.Verb = "watch"
	case r.Method == http.MethodGet && len(parts) == 1:
		right.Verb = "list"
	case r.Method == http.MethodDelete && len(parts) == 1:
		right.Verb = "deletecollection"
	}
	if right.Resource == "namespaces" {
		right.Name = parts[1]
	}
	all := []doctor.Right{right}
	// Applying creates missing objects. A WebSocket is opened by a GET, and since Kubernetes 1.35 it needs the same
	// right as a POST.
	if right.Subresource == "exec" || r.Header.Get("Content-Type") == string(types.ApplyYAMLPatchType) {
		right.Verb = "create"
		all = append(all, right)
	}
	return all
}

// unusedOrMissing compares the used rights with the rules, and prints the difference. It runs after all tests: only
// together they use every right.
func unusedOrMissing(code int) int {
	if !devenv.OnKubernetes() || flag.Lookup("test.run").Value.String() != "" {
		return code
	}
	// Each new connection reads the cluster's identity. That request bypasses the transport that records the rights.
	used.rights[doctor.Right{Verb: "get", Resource: "namespaces", Name: "kube-system"}] = true
	for _, r := range doctor.Rules() {
		if !used.rights[r] {
			fmt.Printf("no test needs the right to %s: remove it from the rules, or test what needs it\n", r)
			code = 1
		}
	}
	for r := range used.rights {
		if !slices.Contains(doctor.Rules(), r) {
			fmt.Printf("the backend needs the right to %s, which is not in the rules\n", r)
			code = 1
		}
	}
	return code
}

// TestRights: without the one right outside the namespace nothing works. If another right is missing, doctor names it.
func TestRights(t *testing.T) {
	if !devenv.OnKubernetes() {
		t.Skip("`make test-k8s` runs it on a cluster")
	}
	c := devenv.Kubernetes(t)
	all := doctor.Rules()
	with := func(account string, rights []doctor.Right) *doctor.Doctor {
		t.Helper()
		d, err := doctor.New(cluster.Options{Kubeconfig: restrict(t, c, account, rights), Namespace: c.Namespace}, spec.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		return d
	}
	blind := with("blind", all[:len(all)-1])
	if id, err := blind.Identity(t.Context()); err == nil || !strings.Contains(err.Error(), "kube-system") {
		t.Errorf("the cluster's identity without a right to ask: %q, %v", id, err)
	}
	poor := with("poor", all[1:])
	wait.For(t, "only one right is missing", func() error {
		found, err := poor.Missing(t.Context())
		if err == nil && !slices.Equal(found, all[:1]) {
			err = fmt.Errorf("missing: %v, want %v", found, all[0])
		}
		return err
	})
}

// TestTheTokenChanges: the backend rereads a token that is in a file, like the token of a Pod's service account. A
// refused token makes the cluster Unreachable until another one is written.
func TestTheTokenChanges(t *testing.T) {
	e := newEngine(t)
	token := func(account string) (config *clientcmdapi.Config, user *clientcmdapi.AuthInfo) {
		config, err := clientcmd.LoadFromFile(restrict(t, e.Cluster, account, doctor.Rules()))
		must(t, err)
		return config, config.AuthInfos[config.Contexts[config.CurrentContext].AuthInfo]
	}
	config, user := token("first")
	file, kubeconfig := t.TempDir()+"/token", t.TempDir()+"/kubeconfig"
	must(t, os.WriteFile(file, []byte(user.Token), 0o600))
	user.Token, user.TokenFile = "", file
	must(t, clientcmd.WriteToFile(*config, kubeconfig))
	o := e.options(backendtest.Installation())
	o.Kubeconfig = kubeconfig
	b := e.with(t, o)
	_, err := b.Objects(t.Context())
	must(t, err)

	must(t, e.Inspect(t, "").Do(t.Context(), http.MethodDelete, "/api/v1/namespaces/%s/serviceaccounts/first", nil, nil, nil))
	wait.Until(t, "the token is refused", func() bool {
		_, err := b.Objects(t.Context())
		if err != nil && (workspace.ReasonOf(err) != workspace.ReasonUnreachable || !strings.Contains(err.Error(), file)) {
			t.Fatal(err)
		}
		return err != nil
	})
	_, next := token("second")
	must(t, os.WriteFile(file, []byte(next.Token), 0o600))
	wait.For(t, "the next token is used", func() error {
		_, err := b.Objects(t.Context())
		return err
	})
}

// TestASecondGrantReplacesTheFirst: if one call has created a job without starting it, and a second call starts it, the
// job has the grant of the second call. The first grant may have expired.
func TestASecondGrantReplacesTheFirst(t *testing.T) {
	e := newEngine(t)
	b, ctx, id := e.New(t, "grants"), t.Context(), workspace.ID(uuid.NewString())
	if err := b.Provision(ctx, backend.VolumeSpec{ID: id, OpID: uuid.NewString()}); err != nil {
		t.Fatal(err)
	}
	job := backend.JobSpec{ID: id, Kind: workspace.JobRestore, OpID: uuid.NewString(), Grant: []byte(`{"grant":1}`)}
	repair := e.broken.add(func(r *http.Request) bool {
		return r.Method == http.MethodPatch && strings.Contains(r.URL.Path, "/jobs/")
	})
	if err := b.StartJob(ctx, job); err == nil {
		t.Error("the job was started")
	}
	repair()
	job.Grant = []byte(`{"grant":2}`)
	if err := b.StartJob(ctx, job); err != nil {
		t.Fatal(err)
	}
	secret, err := e.api.Secrets.Get(ctx, spec.JobName(job), metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if got := secret.Data[contract.GrantName]; string(got) != string(job.Grant) {
		t.Errorf("the job has the grant %s, want %s", got, job.Grant)
	}
}

// TestDoctor checks a real cluster, once with the gateway's rights and once with an administrator's. The check changes
// nothing, and finds everything that these rights allow it to see.
func TestDoctor(t *testing.T) {
	e := newEngine(t)
	image := devenv.StorageJobImage(t)
	o := e.options("x")
	o.Spec.JobImage = image
	for who, kubeconfig := range map[string]string{"the gateway": e.account, "an administrator": e.Kubeconfig} {
		o.Kubeconfig, o.Transport = kubeconfig, nil
		d, err := doctor.New(o.Options, o.Spec)
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		ctx := t.Context()
		if v, err := d.Version(ctx); err != nil || v.Major != "1" {
			t.Errorf("%s: version %+v, %v", who, v, err)
		}
		if id, err := d.Identity(ctx); err != nil || id == "" {
			t.Errorf("%s: identity %q, %v", who, id, err)
		}
		if missing, err := d.Missing(ctx); err != nil || len(missing) > 0 {
			t.Errorf("%s: missing rights %v, %v", who, missing, err)
		}
		if a, err := d.Admission(ctx); err != nil || a.Workspace != nil || a.Job != nil || a.Privileged {
			t.Errorf("%s: the namespace enforces baseline, but %+v, %v", who, a, err)
		}
		ready, all, known, err := d.Nodes(ctx)
		if err != nil || known != (who == "an administrator") || known && (ready == 0 || all == 0) {
			t.Errorf("%s: %d of %d nodes, %v, %v", who, ready, all, known, err)
		}
		class, known, err := d.StorageClass(ctx)
		if err != nil || known != (who == "an administrator") || known && class == nil {
			t.Errorf("%s: storage class %v, %v, %v", who, class, known, err)
		}
		enforced, err := d.Enforced(ctx)
		if err != nil {
			t.Errorf("%s: %v", who, err)
		}
		t.Logf("%s finds that policies are enforced: %v", who, enforced)
	}
	// The objects of the check are gone, or about to be.
	wait.For(t, "nothing is left", func() error {
		jobs, err := e.api.Jobs.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		policies, err := e.api.NetworkPolicies.List(t.Context(), metav1.ListOptions{})
		if err != nil {
			return err
		}
		pods, err := e.api.Pods.List(t.Context(), metav1.ListOptions{})
		if n := len(jobs.Items) + len(policies.Items) + len(pods.Items); err == nil && n > 0 {
			text, _ := json.Marshal([]any{names(pods), len(jobs.Items), len(policies.Items)})
			err = errors.New(string(text))
		}
		return err
	})
}

func names(l *corev1.PodList) (all []string) {
	for _, p := range l.Items {
		all = append(all, p.Name)
	}
	return all
}
