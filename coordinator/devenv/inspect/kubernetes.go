package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/codehub/gateway/coordinator/backend/kubernetes/spec"
	"github.com/codehub/gateway/coordinator/workspace"
)

// Kubernetes is an installation's part of a namespace. It speaks plain JSON over HTTP, so
// that it shares nothing with the product's client.
type Kubernetes struct {
	config       *rest.Config
	client       *http.Client
	Namespace    string
	installation string
}

// NewKubernetes returns the installation's part of a namespace, or the whole namespace for
// an empty installation.
func NewKubernetes(kubeconfig, namespace, installation string) (*Kubernetes, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.NextProtos = []string{"http/1.1"} // WebSockets need it
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	return &Kubernetes{config, client, namespace, installation}, nil
}

// The collections, for [Kubernetes.Do].
const (
	PodsPath    = "/api/v1/namespaces/%s/pods"
	claimsPath  = "/api/v1/namespaces/%s/persistentvolumeclaims"
	secretsPath = "/api/v1/namespaces/%s/secrets"
	jobsPath    = "/apis/batch/v1/namespaces/%s/jobs"
)

// ErrNotFound says that there is no such object.
var ErrNotFound = errors.New("not found")

// Do sends a request for the object at path, in which %s is the namespace. The body is JSON unless
// in is nil. The answer is decoded into out unless that is nil.
func (k *Kubernetes) Do(ctx context.Context, method, path string, query url.Values, in, out any) error {
	res, err := k.open(ctx, method, path, query, in)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if out == nil {
		_, err = io.Copy(io.Discard, res.Body)
		return err
	}
	return json.NewDecoder(res.Body).Decode(out)
}

func (k *Kubernetes) open(ctx context.Context, method, path string, query url.Values, in any) (*http.Response, error) {
	var body io.Reader
	if in != nil {
		text, err := json.Marshal(in)
		if err != nil {
			return nil, err
		}
		body = bytes.NewReader(text)
	}
	if strings.Contains(path, "%s") {
		path = fmt.Sprintf(path, k.Namespace)
	}
	r, err := http.NewRequestWithContext(ctx, method, k.config.Host+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Accept", "application/json")
	if in != nil {
		r.Header.Set("Content-Type", "application/json")
		if method == http.MethodPatch {
			r.Header.Set("Content-Type", "application/merge-patch+json")
		}
	}
	res, err := k.client.Do(r)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 300 {
		return res, nil
	}
	defer res.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(res.Body, 1<<10))
	err = fmt.Errorf("%s %s: %s %s", method, path, res.Status, text)
	if res.StatusCode == http.StatusNotFound {
		err = fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	return nil, err
}

// selector selects the objects of a workspace, or all of the installation.
func (k *Kubernetes) selector(workspace string) url.Values {
	labels := spec.LabelInstallation + "=" + k.installation
	if k.installation == "" {
		labels = spec.LabelInstallation
	}
	if workspace != "" {
		labels += "," + spec.LabelWorkspace + "=" + workspace
	}
	return url.Values{"labelSelector": {labels}}
}

func (k *Kubernetes) pods(ctx context.Context, workspace string) (*corev1.PodList, error) {
	var list corev1.PodList
	return &list, k.Do(ctx, http.MethodGet, PodsPath, k.selector(workspace), nil, &list)
}

// Containers implements [Engine].
func (k *Kubernetes) Containers(ctx context.Context, workspace string) ([]Container, error) {
	list, err := k.pods(ctx, workspace)
	if err != nil {
		return nil, err
	}
	var all []Container
	for i := range list.Items {
		all = append(all, containerOf(&list.Items[i]))
	}
	return all, nil
}

// containerOf describes a Pod. A Pod that is being deleted still counts, because its container may still run.
func containerOf(p *corev1.Pod) Container {
	c := Container{
		Workspace: p.Labels[spec.LabelWorkspace], Kind: p.Labels[spec.LabelKind], Job: p.Labels[spec.LabelJob],
		Name: p.Name, ID: string(p.UID), State: Created, Term: p.Annotations[spec.AnnotationTerm],
		Address: p.Status.PodIP,
	}
	for _, s := range p.Status.ContainerStatuses {
		switch {
		case s.State.Running != nil:
			c.State = Running
		case s.State.Terminated != nil:
			c.State = Exited
		}
	}
	if p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
		c.State = Exited
	}
	return c
}

// Volume implements [Engine].
func (k *Kubernetes) Volume(ctx context.Context, workspace string) (op string, exists bool, err error) {
	var claim corev1.PersistentVolumeClaim
	err = k.Do(ctx, http.MethodGet, claimsPath+"/"+homeOf(workspace), nil, nil, &claim)
	if errors.Is(err, ErrNotFound) {
		return "", false, nil
	}
	return claim.Labels[spec.LabelOp], err == nil, err
}

// MakeVolume implements [Engine].
func (k *Kubernetes) MakeVolume(ctx context.Context, id, op string) error {
	return k.Do(ctx, http.MethodPost, claimsPath, nil, &corev1.PersistentVolumeClaim{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"},
		ObjectMeta: metav1.ObjectMeta{
			Name: homeOf(id),
			Labels: spec.With(spec.Labels(k.installation, workspace.ID(id), spec.KindHome),
				map[string]string{spec.LabelOp: op}),
		},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}, nil)
}

// RemoveVolume implements [Engine].
func (k *Kubernetes) RemoveVolume(ctx context.Context, workspace string) error {
	return k.Do(ctx, http.MethodDelete, claimsPath+"/"+homeOf(workspace), nil, nil, nil)
}

// Kill implements [Engine]. A workspace's processes are killed from inside; a job's image has
// no shell, so its Pod is deleted, as an eviction does.
func (k *Kubernetes) Kill(ctx context.Context, c Container) error {
	if c.Kind == Workspace {
		_, err := k.Exec(ctx, c.Workspace, nil, "kill -9 -1") // all but this shell, which ends with them
		return err
	}
	err := k.DeletePod(ctx, c.Name)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// RemoveJob implements [Engine]. The Job is removed, too, because it records how the Pod ended.
func (k *Kubernetes) RemoveJob(ctx context.Context, c Container) error {
	var p corev1.Pod
	if err := k.Do(ctx, http.MethodGet, PodsPath+"/"+c.Name, nil, nil, &p); err != nil {
		return err
	}
	for _, owner := range p.OwnerReferences {
		err := k.Do(ctx, http.MethodDelete, jobsPath+"/"+owner.Name, url.Values{"propagationPolicy": {"Background"}},
			nil, nil)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
	}
	if err := k.Kill(ctx, c); err != nil {
		return err
	}
	err := k.Do(ctx, http.MethodPatch, PodsPath+"/"+c.Name, nil,
		map[string]any{"metadata": map[string]any{"finalizers": nil}}, nil)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// DeletePod deletes a Pod, which its node then ends.
func (k *Kubernetes) DeletePod(ctx context.Context, name string) error {
	return k.Do(ctx, http.MethodDelete, PodsPath+"/"+name, url.Values{"gracePeriodSeconds": {"1"}}, nil, nil)
}

// Exec implements [Engine].
func (k *Kubernetes) Exec(ctx context.Context, workspace string, stdin io.Reader, command string) ([]byte, error) {
	var p corev1.Pod
	if err := k.Do(ctx, http.MethodGet, PodsPath+"/ws-"+workspace, nil, nil, &p); err != nil {
		return nil, err
	}
	query := url.Values{
		"container": {p.Spec.Containers[0].Name}, "command": {"sh", "-c", command}, "stdout": {"true"},
		"stderr": {"true"},
	}
	if stdin != nil {
		query.Set("stdin", "true")
	}
	return k.stream(ctx, fmt.Sprintf(PodsPath, k.Namespace)+"/"+p.Name+"/exec?"+query.Encode(), stdin)
}

// change is an event of a watch of Pods.
type change struct {
	Type   string          `json:"type"`
	Object json.RawMessage `json:"object"`
}

// watch calls do with every change of Pods since a version, until ctx ends, the server ends the watch, or do returns an
// error.
func (k *Kubernetes) watch(ctx context.Context, query url.Values, since string,
	do func(kind string, p *corev1.Pod) error) error {
	query.Set("watch", "true")
	query.Set("resourceVersion", since)
	res, err := k.open(ctx, http.MethodGet, PodsPath, query, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return changes(res.Body, do)
}

func changes(r io.Reader, do func(kind string, p *corev1.Pod) error) error {
	for lines := json.NewDecoder(r); ; {
		var c change
		if err := lines.Decode(&c); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			return err
		}
		if c.Type == "ERROR" {
			return fmt.Errorf("the watch failed: %s", c.Object)
		}
		var p corev1.Pod
		if err := json.Unmarshal(c.Object, &p); err != nil {
			return err
		}
		if err := do(c.Type, &p); err != nil {
			return err
		}
	}
}

// story turns the changes of Pods into events. A change reports a Pod's state; the first change that reports a state is
// the event.
type story struct {
	mu       sync.Mutex
	seen     map[string]string // states by id
	versions string            // the newest one
}

func (s *story) tell(kind string, p *corev1.Pod, do func(Event)) {
	c := containerOf(p)
	s.mu.Lock()
	before, known := s.seen[c.ID]
	s.seen[c.ID], s.versions = c.State, p.ResourceVersion
	if kind == "DELETED" {
		delete(s.seen, c.ID)
	}
	s.mu.Unlock()
	var now []Action
	if !known {
		now = append(now, ActionCreate)
	}
	if before != Running && before != Exited && (c.State == Running || c.State == Exited && ran(p)) {
		now = append(now, ActionStart)
	}
	if before != Exited && c.State == Exited || kind == "DELETED" && c.State == Running {
		now = append(now, ActionDie)
	}
	if kind == "DELETED" {
		now = append(now, ActionRemove)
	}
	for _, a := range now {
		do(Event{a, c})
	}
}

// ran reports whether the Pod's container has run before it ended.
func ran(p *corev1.Pod) bool {
	for _, s := range p.Status.ContainerStatuses {
		if s.State.Terminated != nil && !s.State.Terminated.StartedAt.IsZero() {
			return true
		}
	}
	return false
}

// begin returns the story so far, with its version.
func (k *Kubernetes) begin(ctx context.Context, workspace string) (*story, error) {
	list, err := k.pods(ctx, workspace)
	if err != nil {
		return nil, err
	}
	s := &story{seen: make(map[string]string), versions: list.ResourceVersion}
	for i := range list.Items {
		c := containerOf(&list.Items[i])
		s.seen[c.ID] = c.State
	}
	return s, nil
}

// Follow implements [Engine].
func (k *Kubernetes) Follow(ctx context.Context, do func(Event)) (<-chan error, error) {
	s, err := k.begin(ctx, "")
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() {
		for {
			err := k.watch(ctx, k.selector(""), s.versions,
				func(kind string, p *corev1.Pod) error { s.tell(kind, p, do); return nil })
			if err == nil && ctx.Err() == nil {
				continue // the server ends every watch after some time
			}
			if ctx.Err() != nil {
				err = nil
			}
			ended <- err
			return
		}
	}()
	return ended, nil
}

// Mark implements [Engine].
func (k *Kubernetes) Mark(ctx context.Context) (Mark, error) {
	s, err := k.begin(ctx, "")
	if err != nil {
		return Mark{}, err
	}
	return Mark{s.versions, s.seen}, nil
}

// Since implements [Engine]. The server sends the changes that it remembers, and ends the watch after a second.
func (k *Kubernetes) Since(ctx context.Context, m Mark, workspace string) (all []Event, err error) {
	s := &story{seen: make(map[string]string)}
	for id, state := range m.seen {
		s.seen[id] = state
	}
	query := k.selector(workspace)
	query.Set("timeoutSeconds", "1")
	err = k.watch(ctx, query, m.at, func(kind string, p *corev1.Pod) error {
		s.tell(kind, p, func(e Event) { all = append(all, e) })
		return nil
	})
	return all, err
}

// Free removes the finalizers of the installation's Pods that are being deleted. An administrator does the same if the
// program that normally removes the finalizers no longer runs.
func (k *Kubernetes) Free(ctx context.Context) error {
	list, err := k.pods(ctx, "")
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range list.Items {
		if p.DeletionTimestamp == nil || len(p.Finalizers) == 0 {
			continue
		}
		none := map[string]any{"metadata": map[string]any{"finalizers": nil, "uid": p.UID}}
		if err := k.Do(ctx, http.MethodPatch, PodsPath+"/"+p.Name, nil, none, nil); !errors.Is(err, ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Remove implements [Engine].
func (k *Kubernetes) Remove(ctx context.Context) error {
	query := k.selector("")
	query.Set("propagationPolicy", "Background")
	query.Set("gracePeriodSeconds", "1")
	var errs []error
	for _, path := range []string{jobsPath, PodsPath, secretsPath, claimsPath} {
		errs = append(errs, k.Do(ctx, http.MethodDelete, path, query, nil, nil))
	}
	errs = append(errs, k.Free(ctx))
	for _, path := range []string{PodsPath, claimsPath} {
		var left metav1.PartialObjectMetadataList
		errs = append(errs, k.Do(ctx, http.MethodGet, path, k.selector(""), nil, &left))
		if n := len(left.Items); n > 0 {
			errs = append(errs, fmt.Errorf("%d objects of %s are still there", n, path))
		}
	}
	return errors.Join(errs...)
}

// Close implements [Engine].
func (k *Kubernetes) Close() { utilnet.CloseIdleConnectionsFor(k.client.Transport) }
