package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/workspace"
)

// TestEachConnectionAsks: each connection asks for the identity before any request, and with the client's credential.
func TestEachConnectionAsks(t *testing.T) {
	f := newFake(t, "A")
	c := f.connect()
	for range 3 {
		if _, err := c.Pods.List(t.Context(), metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	if id, err := c.Identity(t.Context()); id != "A" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	if f.questions != 1 {
		t.Errorf("%d questions on one connection", f.questions)
	}
	f.is("B")
	f.CloseClientConnections()
	before := len(f.asked())
	_, err := c.Pods.List(t.Context(), metav1.ListOptions{})
	wantUnreachable(t, "a listing of another cluster", Wrap("listing", err))
	if _, err := c.Identity(t.Context()); err == nil || !strings.Contains(err.Error(), "another Kubernetes cluster, B,") {
		t.Errorf("the identity: %v", err)
	}
	if n := len(f.asked()); n != before {
		t.Errorf("the other cluster was asked: %v", f.asked()[before:])
	}
}

func TestIdentityBeforeAnythingElse(t *testing.T) {
	f := newFake(t, "A")
	if id, err := f.connect().Identity(t.Context()); id != "A" || err != nil {
		t.Errorf("%q, %v", id, err)
	}
	f.answers(func(w http.ResponseWriter, r *http.Request) bool {
		refuse(w, http.StatusForbidden, metav1.StatusReasonForbidden, `namespaces "kube-system" is forbidden: User "somebody" cannot get resource "namespaces" in API group "" in the namespace "kube-system"`)
		return true
	})
	_, err := f.connect().Identity(t.Context())
	if err == nil || !strings.Contains(err.Error(), "RBAC does not let somebody get namespaces") {
		t.Errorf("%v", err)
	}
}

func TestNothingIsChangedAfterTheLease(t *testing.T) {
	f := newFake(t, "A")
	c := f.connect()
	ctx := backend.WithLease(t.Context(), func() bool { return false })
	_, create := c.Pods.Create(ctx, new(corev1.Pod), metav1.CreateOptions{})
	for what, err := range map[string]error{"create": create, "delete": c.Pods.Delete(ctx, "x", metav1.DeleteOptions{})} {
		if !errors.Is(Wrap(what, err), backend.ErrLeaseLapsed) || workspace.ReasonOf(err) == workspace.ReasonUnreachable {
			t.Errorf("%s: %v", what, err)
		}
	}
	if len(f.asked()) != 0 {
		t.Errorf("asked was %v", f.asked())
	}
	if _, err := c.Pods.List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("reading needs no lease: %v", err)
	}
}

func TestErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		code    int
		reason  metav1.StatusReason
		message string
		want    workspace.ErrorReason
		text    string
		is      func(error) bool
	}{
		"no credential": {401, metav1.StatusReasonUnauthorized, "Unauthorized", workspace.ReasonUnreachable, "the token of the user somebody in ", apierrors.IsUnauthorized},
		"RBAC":          {403, metav1.StatusReasonForbidden, `jobs.batch is forbidden: User "u" cannot create resource "jobs" in API group "batch" in the namespace "n"`, workspace.ReasonActionFailed, "RBAC does not let u create jobs.batch", apierrors.IsForbidden},
		"quota":         {403, metav1.StatusReasonForbidden, `pods "x" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1`, workspace.ReasonActionFailed, "exceeded quota: q", apierrors.IsForbidden},
		"other":         {403, metav1.StatusReasonForbidden, `pods "x" is forbidden: violates PodSecurity`, workspace.ReasonActionFailed, "violates PodSecurity", apierrors.IsForbidden},
		"conflict":      {409, metav1.StatusReasonConflict, "changed", workspace.ReasonActionFailed, "changed", apierrors.IsConflict},
		"exists":        {409, metav1.StatusReasonAlreadyExists, "exists", workspace.ReasonActionFailed, "exists", apierrors.IsAlreadyExists},
		"nothing":       {404, metav1.StatusReasonNotFound, "nothing", workspace.ReasonActionFailed, "nothing", apierrors.IsNotFound},
		"broken":        {500, metav1.StatusReasonInternalError, "etcdserver: request timed out", workspace.ReasonUnreachable, "cannot answer now", apierrors.IsInternalError},
		"away":          {503, metav1.StatusReasonServiceUnavailable, "away", workspace.ReasonUnreachable, "cannot answer now", apierrors.IsServiceUnavailable},
		"timeout":       {504, metav1.StatusReasonTimeout, "slow", workspace.ReasonUnreachable, "cannot answer now", apierrors.IsTimeout},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(t, "A")
			c := f.connect()
			if _, err := c.Identity(t.Context()); err != nil {
				t.Fatal(err)
			}
			f.answers(func(w http.ResponseWriter, r *http.Request) bool {
				refuse(w, tt.code, tt.reason, tt.message)
				return true
			})
			_, err := c.Pods.Get(t.Context(), "x", metav1.GetOptions{})
			err = Wrap("looking", err)
			if err == nil || workspace.ReasonOf(err) != tt.want || !strings.Contains(err.Error(), tt.text) || !tt.is(err) || !strings.Contains(err.Error(), "looking") {
				t.Errorf("%s: %v", workspace.ReasonOf(err), err)
			}
			if err != nil && strings.Contains(err.Error(), token) {
				t.Error("the error tells the credential")
			}
		})
	}
}

func TestWrap(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want workspace.ErrorReason
	}{
		"cancelled": {context.Canceled, workspace.ReasonActionFailed},
		"late":      {context.DeadlineExceeded, workspace.ReasonUnreachable},
		"refused":   {&net.OpError{Op: "dial", Err: errors.New("connection refused")}, workspace.ReasonUnreachable},
		"its own":   {workspace.Fail(workspace.ReasonConflict, errors.New("x")), workspace.ReasonConflict},
		"other":     {errors.New("x"), workspace.ReasonActionFailed},
	} {
		if err := Wrap("looking", fmt.Errorf("x: %w", tt.err)); workspace.ReasonOf(err) != tt.want || !errors.Is(err, tt.err) {
			t.Errorf("%s: %v: %v", name, workspace.ReasonOf(err), err)
		}
	}
	if Wrap("looking", nil) != nil {
		t.Error("an error out of nothing")
	}
}

// TestAClusterThatHangs: requests time out. A watch times out only if it does not begin.
func TestAClusterThatHangs(t *testing.T) {
	f := newFake(t, "A")
	c := f.connect()
	end := make(chan struct{})
	t.Cleanup(func() { close(end) })
	f.answers(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == whoPath {
			return false
		}
		<-end
		return true
	})
	c.http.Transport = bounded{c.http.Transport.(bounded).base, 1}
	_, err := c.Pods.List(t.Context(), metav1.ListOptions{})
	wantUnreachable(t, "a listing", Wrap("listing", err))
	_, err = c.Pods.Watch(t.Context(), metav1.ListOptions{})
	wantUnreachable(t, "a watch", Wrap("watching", err))
}

func TestNoCluster(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	t.Setenv("HOME", t.TempDir())
	if _, err := Connect(Options{}); err == nil || !strings.Contains(err.Error(), "set kubeconfig") {
		t.Errorf("%v", err)
	}
	if _, err := Connect(Options{Kubeconfig: "/nowhere/at/all"}); err == nil || !strings.Contains(err.Error(), "/nowhere/at/all") {
		t.Errorf("%v", err)
	}
	f := newFake(t, "A")
	o := f.options()
	o.Context = "another"
	if _, err := Connect(o); err == nil || !strings.Contains(err.Error(), "another") {
		t.Errorf("%v", err)
	}
	if c := f.connect(); c.Namespace() != "here" {
		t.Errorf("the namespace is %q", c.Namespace())
	}
}

// TestNow: the time is the API server's.
func TestNow(t *testing.T) {
	f := newFake(t, "A")
	theirs := time.Now().Add(-3 * time.Hour).Truncate(time.Second).UTC()
	for _, date := range []string{theirs.Format(http.TimeFormat), "yesterday"} {
		f.answers(func(w http.ResponseWriter, _ *http.Request) bool {
			w.Header().Set("Date", date)
			return false
		})
		if now, err := f.connect().Now(t.Context()); (err == nil) != now.Equal(theirs) || (err != nil) != (date == "yesterday") {
			t.Errorf("%q: %s, %v", date, now, err)
		}
	}
	c := f.connect()
	f.Close()
	_, err := c.Now(t.Context())
	wantUnreachable(t, "a cluster that is away", err)
}
