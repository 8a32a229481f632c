package doctor

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator"
	"github.com/codehub/gateway/coordinator/backend/kubernetes"
	cluster "github.com/codehub/gateway/coordinator/backend/kubernetes/doctor"
)

// TestJudgeACluster: what is found becomes ok, a warning or a problem, and says what to do.
func TestJudgeACluster(t *testing.T) {
	delayed, immediate, retain := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimRetain
	class := func(binding *storagev1.VolumeBindingMode, reclaim *corev1.PersistentVolumeReclaimPolicy, grows bool) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, VolumeBindingMode: binding, ReclaimPolicy: reclaim, AllowVolumeExpansion: &grows}
	}
	reference := func(ref string) []finding {
		f, good := judgeReference(ref)
		if good {
			f = ok("good")
		}
		return []finding{f}
	}
	refused := errors.New("violates PodSecurity")
	for name, tt := range map[string]struct {
		found []finding
		level level
		part  string // of a text or a remedy
	}{
		"a new cluster":          {[]finding{judgeVersion(cluster.Version{Text: "v1.34.4", Major: "1", Minor: "34"})}, levelOK, "v1.34.4"},
		"a provider's":           {[]finding{judgeVersion(cluster.Version{Text: "v1.29.1-x", Major: "1", Minor: "29+"})}, levelProblem, "too old"},
		"nodes":                  {[]finding{judgeNodes(3, 3, true)}, levelOK, "3 of 3 nodes"},
		"a node is away":         {[]finding{judgeNodes(2, 3, true)}, levelWarning, "kubectl get nodes"},
		"no node":                {[]finding{judgeNodes(0, 1, true)}, levelProblem, "0 of 1 node"},
		"no right to see nodes":  {[]finding{judgeNodes(0, 0, false)}, levelWarning, "administrator"},
		"a good class":           {judgeClass("", class(&delayed, nil, true), true), levelOK, "fast"},
		"a class of one zone":    {judgeClass("", class(&immediate, nil, true), true), levelWarning, "WaitForFirstConsumer"},
		"a class without a mode": {judgeClass("", class(nil, nil, true), true), levelWarning, "WaitForFirstConsumer"},
		"a class that keeps":     {judgeClass("fast", class(&delayed, &retain, true), true), levelWarning, "reclaimPolicy"},
		"a class of fixed size":  {judgeClass("fast", class(&delayed, nil, false), true), levelWarning, "larger"},
		"no such class":          {judgeClass("fast", nil, true), levelProblem, "no storage class fast"},
		"no default class":       {judgeClass("", nil, true), levelProblem, "default"},
		"no right to see it":     {judgeClass("", nil, false), levelWarning, "administrator"},
		"a safe namespace":       {judgeAdmission("ns", cluster.Admission{}), levelOK, "ns takes"},
		"a restricted namespace": {judgeAdmission("ns", cluster.Admission{Job: refused}), levelProblem, "enforce=baseline"},
		"no workspace":           {judgeAdmission("ns", cluster.Admission{Workspace: refused}), levelProblem, "violates PodSecurity"},
		"an open namespace":      {judgeAdmission("ns", cluster.Admission{Privileged: true}), levelWarning, "kubectl label namespace ns"},
		"homes":                  {[]finding{judgeHomes(cluster.Homes{All: 3})}, levelOK, "3 homes, none smaller"},
		"homes that grow":        {[]finding{judgeHomes(cluster.Homes{All: 3, Small: 2})}, levelOK, "2 of them smaller"},
		"homes that stay":        {[]finding{judgeHomes(cluster.Homes{All: 3, Small: 2, Refused: errors.New("the class must support resize")})}, levelWarning, "must support resize"},
		"an image with a tag":    {reference("registry.example.com:5000/a/b:1.2"), levelOK, ""},
		"an image by digest":     {reference("a/b:latest@sha256:" + strings.Repeat("0", 64)), levelOK, ""},
		"an image without tag":   {reference("registry.example.com/a"), levelWarning, "tag of its own"},
		"latest":                 {reference("a/b:latest"), levelWarning, "differ"},
		"no image":               {reference("Not An Image"), levelProblem, "write it as"},
	} {
		worst, text := levelOK, ""
		for _, f := range tt.found {
			if f.Level == levelProblem || worst == levelOK {
				worst = f.Level
			}
			if (f.Level == levelOK) != (f.Remedy == "") {
				t.Errorf("%s: %+v", name, f)
			}
			text += f.Text + " " + f.Remedy + "\n"
		}
		if worst != tt.level || !strings.Contains(text, tt.part) {
			t.Errorf("%s: %s, %q; want %s with %q", name, worst, text, tt.level, tt.part)
		}
	}
}

// TestChecksOfACluster: no row of the table needs a check that is not there.
func TestChecksOfACluster(t *testing.T) {
	there := make(map[string]bool)
	table := checksFor(coordinator.Options{Kubernetes: new(kubernetes.Options)})
	for _, c := range table {
		if c.needs != "" && !there[c.needs] || there[c.name] {
			t.Errorf("%s is there twice, or needs %q, which has no row before it", c.name, c.needs)
		}
		there[c.name] = true
	}
	last := checks[len(checks)-1]
	if there["engine"] || !there["cluster"] || !there["database"] || table[len(table)-1].name != last.name {
		t.Errorf("the rows of a cluster do not take the place of the engine's: %v", there)
	}
}
