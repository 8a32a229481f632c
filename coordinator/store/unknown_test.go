package store

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
)

// A newer release writes members that this one does not know, in every JSON column and in every object in it. They
// survive every save by this release. A member beside known members always survives; a member inside an object survives
// as long as that object stays unchanged.
func TestWhatANewerReleaseHasWrittenStays(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("SEED"); text != "" {
		seed, _ = strconv.ParseUint(text, 10, 64)
	}
	t.Logf("SEED=%d", seed)
	r := rand.New(rand.NewPCG(seed, 16))
	s := open(t)
	lead(t, s)
	w := add(t, s, addUser(t, s))
	for round := range 200 {
		for _, column := range []string{"home_ctx", "conditions", "waiting", "progress"} {
			exec(t, s, fmt.Sprintf(`UPDATE workspaces SET %[1]s = %[1]s || jsonb_build_object('newer_%[2]d', jsonb_build_object('reason', '%[2]d')) WHERE id = $1`, column, round), string(w.ID))
		}
		exec(t, s, `UPDATE workspaces SET
			conditions = (SELECT COALESCE(jsonb_object_agg(key, CASE jsonb_typeof(value) WHEN 'object' THEN value || '{"newer": 1}' ELSE value END), '{}') FROM jsonb_each(conditions)),
			home_ctx = CASE WHEN home_ctx ? 'fingerprint' THEN jsonb_set(home_ctx, '{fingerprint,newer}', '1') ELSE home_ctx END WHERE id = $1`, string(w.ID))
		prev := read(t, s, w.ID)
		before := columnsOf(t, s, w.ID)
		next := prev
		next.HomeCtx, next.Conditions = mutate(r, prev.HomeCtx), mutateConditions(r, prev.Conditions)
		if r.IntN(3) == 0 {
			next.Waiting = &workspace.Waiting{Reason: fmt.Sprint(r.IntN(2)), Since: micros(time.Now())}
		}
		if r.IntN(3) == 0 {
			next.Progress = &workspace.JobProgress{Bytes: r.Int64N(3), At: micros(time.Now())}
		}
		if saved, err := s.Save(t.Context(), fence, prev, next, nil); !saved || err != nil {
			t.Fatalf("Save = %v, %v", saved, err)
		}
		got := read(t, s, w.ID)
		// The conditions that this release reads include one that it does not know.
		if !reflect.DeepEqual(got.HomeCtx, next.HomeCtx) || !reflect.DeepEqual(got.Conditions, next.Conditions) ||
			!reflect.DeepEqual(got.Waiting, next.Waiting) || !reflect.DeepEqual(got.Progress, next.Progress) {
			t.Fatalf("saved %+v, read %+v", next, got)
		}
		after := columnsOf(t, s, w.ID)
		kept(t, "home_ctx", before.HomeCtx, after.HomeCtx)
		kept(t, "conditions", before.Conditions, after.Conditions)
		if prev.HomeCtx.Fingerprint == next.HomeCtx.Fingerprint && !reflect.DeepEqual(before.HomeCtx["fingerprint"], after.HomeCtx["fingerprint"]) {
			t.Fatalf("the fingerprint was %v and is %v", before.HomeCtx["fingerprint"], after.HomeCtx["fingerprint"])
		}
		for name, c := range next.Conditions {
			if prev.Conditions[name] == c && !reflect.DeepEqual(before.Conditions[string(name)], after.Conditions[string(name)]) {
				t.Fatalf("condition %s was %v and is %v", name, before.Conditions[string(name)], after.Conditions[string(name)])
			}
		}
		if reflect.DeepEqual(prev.Waiting, next.Waiting) && !reflect.DeepEqual(before.Waiting, after.Waiting) ||
			reflect.DeepEqual(prev.Progress, next.Progress) && !reflect.DeepEqual(before.Progress, after.Progress) {
			t.Fatalf("before %+v, after %+v", before, after)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
}

// raw holds the columns as they are stored.
type raw struct{ HomeCtx, Conditions, Waiting, Progress map[string]any }

func columnsOf(t testing.TB, s *Store, id workspace.ID) (out raw) {
	t.Helper()
	text := value[string](t, s, `SELECT json_build_object('HomeCtx', home_ctx, 'Conditions', conditions, 'Waiting', waiting, 'Progress', progress)::text
		FROM workspaces WHERE id = $1`, string(id))
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// kept fails the test unless after has all members of newer releases, unchanged.
func kept(t testing.TB, what string, before, after map[string]any) {
	t.Helper()
	for name, v := range before {
		if strings.HasPrefix(name, "newer") && !reflect.DeepEqual(after[name], v) {
			t.Errorf("%s: %s was %v and is %v", what, name, v, after[name])
		}
	}
}

// mutate sets some fields to other values, or to none.
func mutate(r *rand.Rand, h workspace.HomeContext) workspace.HomeContext {
	v := reflect.ValueOf(&h).Elem()
	for _, field := range reflect.VisibleFields(v.Type()) {
		if field.Anonymous || r.IntN(4) > 0 { // the fields of embedded records are visible, too
			continue
		}
		switch f := v.FieldByIndex(field.Index); f.Interface().(type) {
		case string:
			f.SetString([]string{"", "a", "b"}[r.IntN(3)])
		case workspace.DesiredState:
			f.SetString([]string{"", string(workspace.DesiredRunning), string(workspace.DesiredStandby)}[r.IntN(3)])
		case bool:
			f.SetBool(r.IntN(2) == 0)
		case int:
			f.SetInt(r.Int64N(3))
		case time.Time:
			f.Set(reflect.ValueOf([]time.Time{{}, time.Unix(r.Int64N(100), 0).UTC()}[r.IntN(2)]))
		case workspace.Fingerprint:
			f.Set(reflect.ValueOf([]workspace.Fingerprint{{}, {Value: "v", Size: r.Int64N(3)}}[r.IntN(2)]))
		case workspace.FoundPort:
			f.Set(reflect.ValueOf([]workspace.FoundPort{{}, {Port: 8888, Started: time.Unix(r.Int64N(100), 0).UTC()}}[r.IntN(2)]))
		default:
			panic("no other value for " + field.Name)
		}
	}
	return h
}

// mutateConditions sets or removes some of the conditions that this release knows.
func mutateConditions(r *rand.Rand, c workspace.Conditions) workspace.Conditions {
	out := maps.Clone(c)
	for _, name := range []workspace.ConditionType{workspace.VolumeReady, workspace.PolicyHealthy} {
		switch r.IntN(6) {
		case 0:
			delete(out, name)
		case 1:
			out[name] = workspace.Condition{Status: "True", Reason: []string{"", "R"}[r.IntN(2)], LastTransitionTime: time.Unix(r.Int64N(100), 0).UTC()}
		}
	}
	return out
}
