package doctor

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/codehub/gateway/coordinator/backend/check"
)

// TestJudgeACluster: each state of a cluster is judged as ok, a warning or a problem, with the right remedy.
func TestJudgeACluster(t *testing.T) {
	delayed, immediate, retain := storagev1.VolumeBindingWaitForFirstConsumer, storagev1.VolumeBindingImmediate, corev1.PersistentVolumeReclaimRetain
	class := func(binding *storagev1.VolumeBindingMode, reclaim *corev1.PersistentVolumeReclaimPolicy, grows bool) *storagev1.StorageClass {
		return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "fast"}, VolumeBindingMode: binding, ReclaimPolicy: reclaim, AllowVolumeExpansion: &grows}
	}
	reference := func(ref string) []check.Finding {
		f, good := judgeReference(ref)
		if good {
			f = check.OK("good")
		}
		return []check.Finding{f}
	}
	refused := errors.New("violates PodSecurity")
	for name, tt := range map[string]struct {
		found []check.Finding
		level check.Level
		part  string // of a text or a remedy
	}{
		"a new cluster":          {[]check.Finding{judgeVersion(Version{Text: "v1.34.4", Major: "1", Minor: "34"})}, check.LevelOK, "v1.34.4"},
		"a provider's":           {[]check.Finding{judgeVersion(Version{Text: "v1.29.1-x", Major: "1", Minor: "29+"})}, check.LevelProblem, "too old"},
		"nodes":                  {[]check.Finding{judgeNodes(3, 3, true)}, check.LevelOK, "3 of 3 nodes"},
		"a node is away":         {[]check.Finding{judgeNodes(2, 3, true)}, check.LevelWarning, "kubectl get nodes"},
		"no node":                {[]check.Finding{judgeNodes(0, 1, true)}, check.LevelProblem, "0 of 1 node"},
		"no right to see nodes":  {[]check.Finding{judgeNodes(0, 0, false)}, check.LevelWarning, "administrator"},
		"a good class":           {judgeClass("", class(&delayed, nil, true), true), check.LevelOK, "fast"},
		"a class of one zone":    {judgeClass("", class(&immediate, nil, true), true), check.LevelWarning, "WaitForFirstConsumer"},
		"a class without a mode": {judgeClass("", class(nil, nil, true), true), check.LevelWarning, "WaitForFirstConsumer"},
		"a class that keeps":     {judgeClass("fast", class(&delayed, &retain, true), true), check.LevelWarning, "reclaimPolicy"},
		"a class of fixed size":  {judgeClass("fast", class(&delayed, nil, false), true), check.LevelWarning, "larger"},
		"no such class":          {judgeClass("fast", nil, true), check.LevelProblem, "no storage class fast"},
		"no default class":       {judgeClass("", nil, true), check.LevelProblem, "default"},
		"no right to see it":     {judgeClass("", nil, false), check.LevelWarning, "administrator"},
		"a safe namespace":       {judgeAdmission("ns", Admission{}), check.LevelOK, "ns takes"},
		"a restricted namespace": {judgeAdmission("ns", Admission{Job: refused}), check.LevelProblem, "enforce=baseline"},
		"no workspace":           {judgeAdmission("ns", Admission{Workspace: refused}), check.LevelProblem, "violates PodSecurity"},
		"an open namespace":      {judgeAdmission("ns", Admission{Privileged: true}), check.LevelWarning, "kubectl label namespace ns"},
		"homes":                  {[]check.Finding{judgeHomes(Homes{All: 3})}, check.LevelOK, "3 homes, none smaller"},
		"homes that grow":        {[]check.Finding{judgeHomes(Homes{All: 3, Small: 2})}, check.LevelOK, "2 of them smaller"},
		"homes that stay":        {[]check.Finding{judgeHomes(Homes{All: 3, Small: 2, Refused: errors.New("the class must support resize")})}, check.LevelWarning, "must support resize"},
		"an image with a tag":    {reference("registry.example.com:5000/a/b:1.2"), check.LevelOK, ""},
		"an image by digest":     {reference("a/b:latest@sha256:" + strings.Repeat("0", 64)), check.LevelOK, ""},
		"an image without tag":   {reference("registry.example.com/a"), check.LevelWarning, "tag of its own"},
		"latest":                 {reference("a/b:latest"), check.LevelWarning, "differ"},
		"no image":               {reference("Not An Image"), check.LevelProblem, "write it as"},
	} {
		worst, text := check.LevelOK, ""
		for _, f := range tt.found {
			if f.Level == check.LevelProblem || worst == check.LevelOK {
				worst = f.Level
			}
			if (f.Level == check.LevelOK) != (f.Remedy == "") {
				t.Errorf("%s: %+v", name, f)
			}
			text += f.Text + " " + f.Remedy + "\n"
		}
		if worst != tt.level || !strings.Contains(text, tt.part) {
			t.Errorf("%s: %s, %q; want %s with %q", name, worst, text, tt.level, tt.part)
		}
	}
}
