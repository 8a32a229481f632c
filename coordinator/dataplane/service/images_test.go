package service_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/codehub/gateway/coordinator/dataplane/service"
	"github.com/codehub/gateway/coordinator/launch"
	"github.com/codehub/gateway/coordinator/store/storetest"
	"github.com/codehub/gateway/coordinator/workspace"
)

var images = launch.Catalog{{Name: "code", Reference: "test/code:1"}, {Name: "jupyter", Reference: "test/jupyter:7"}}

// A reference can make the container engine contact any address, so users may name only configured images.
func TestUsersChooseConfiguredImagesOnly(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{})
	s.SetImages(images)
	user := actor(t, st)
	admin := user
	admin.Admin = true
	w := create(t, s, user)
	for _, c := range []struct {
		ref         string
		user, admin bool
	}{
		{"", true, true}, {"jupyter", true, true}, {" code ", true, true},
		{"10.0.0.5:22/x", false, true}, {"registry.example:5000/team/image:tag", false, true},
		{"codercom/code-server@sha256:" + strings.Repeat("0", 64), false, true},
		// Without a tag or a registry it could be the name of a configured image.
		{"ubuntu", false, false}, {"jupiter", false, false},
		{"image --privileged", false, false}, {"--rm", false, false}, {"Image:1", false, false}, {"a:b:c", false, false},
	} {
		for a, want := range map[service.Actor]bool{user: c.user, admin: c.admin} {
			created, createErr := s.Create(t.Context(), a, service.CreateInput{Name: "x", ImageRef: c.ref})
			updated, updateErr := s.Update(t.Context(), a, w.ID, service.Patch{ImageRef: &c.ref})
			for _, err := range []error{createErr, updateErr} {
				var refused *service.ImageError
				if want != (err == nil) || err != nil && (!errors.As(err, &refused) || strings.Join(refused.Names, " ") != "code jupyter" || refused.Free != a.Admin) {
					t.Errorf("%q, admin %v: %v", c.ref, a.Admin, err)
				}
			}
			if kept := strings.TrimSpace(c.ref); want && (created.ImageRef != kept || updated.ImageRef != kept) {
				t.Errorf("%q: it is kept as %q and %q", c.ref, created.ImageRef, updated.ImageRef)
			}
		}
	}
	if refused := (&service.ImageError{Names: images.Names()}).Error(); refused != "image_ref must be one of code, jupyter" {
		t.Errorf("%s", refused)
	}
}

// An owner who chooses another image retries a start that the old image made fail. This does not recover from errors
// that concern the files.
func TestAnotherImageMendsWhatAnImageBreaks(t *testing.T) {
	for reason, fixed := range map[workspace.ErrorReason]bool{
		workspace.ReasonImagePullFailed: true, workspace.ReasonRetryExceeded: true, workspace.ReasonTimeout: true,
		workspace.ReasonDataLost: false, workspace.ReasonConflict: false, workspace.ReasonArchiveCorrupted: false,
		workspace.ReasonContainerWithoutVolume: false,
	} {
		t.Run(string(reason), func(t *testing.T) {
			st := storetest.Open(t)
			s := service.New(st, service.Options{Limits: service.Limits{PerUser: 1}})
			s.SetImages(images)
			a := actor(t, st)
			w := create(t, s, a)
			storetest.Set(t, st, w.ID, `phase = 'ERROR', error_count = 3, error_message = 'x', error_reason = '`+string(reason)+`'`)
			if _, err := s.Update(t.Context(), a, w.ID, service.Patch{Name: ptr("renamed")}); err != nil {
				t.Fatal(err)
			}
			if got := storetest.Row(t, st, w.ID); got.ErrorReason != reason {
				t.Fatalf("another name has recovered it: %+v", got)
			}
			// While the workspace was in ERROR, another workspace took its place. It must not take the place back.
			other := create(t, s, a)
			got, err := s.Update(t.Context(), a, w.ID, service.Patch{ImageRef: ptr("jupyter")})
			if err != nil || got.ImageRef != "jupyter" {
				t.Fatalf("%+v, %v", got, err)
			}
			if fixed != (got.ErrorReason == "") {
				t.Errorf("the reason is %q", got.ErrorReason)
			}
			if fixed && (got.DesiredState != workspace.DesiredStandby || got.ErrorCount != 0 || got.Recovery.Choice != workspace.RecoverRetry) {
				t.Errorf("at the limit: %+v", got)
			}
			if fixed {
				storetest.Set(t, st, w.ID, `phase = 'ERROR', desired_state = 'RUNNING', error_reason = '`+string(reason)+`'`)
				if err := s.SetDesired(t.Context(), a, other.ID, workspace.DesiredArchived); err != nil {
					t.Fatal(err)
				}
				// The owner chooses the same image again, because the image behind the name may have been fixed.
				got, err = s.Update(t.Context(), a, w.ID, service.Patch{ImageRef: ptr("jupyter")})
				if err != nil || got.ErrorReason != "" || got.DesiredState != workspace.DesiredRunning {
					t.Errorf("with a place: %+v, %v", got, err)
				}
			}
		})
	}
}

func TestWorkspacesOfAUserAreLimited(t *testing.T) {
	st := storetest.Open(t)
	a, other := actor(t, st), actor(t, st)
	limits := service.Limits{Workspaces: 5}
	var services []*service.Service
	for range 2 { // two processes
		services = append(services, service.New(storetest.Reopen(t, st), service.Options{Limits: limits}))
	}
	var made atomic.Int32
	var calls sync.WaitGroup
	for i := range 60 {
		calls.Go(func() {
			_, err := services[i%2].Create(context.WithoutCancel(t.Context()), a, service.CreateInput{Name: "x"})
			var many *service.TooManyError
			switch {
			case err == nil:
				made.Add(1)
			case !errors.As(err, &many) || many.Limit != 5:
				t.Errorf("%v", err)
			}
		})
	}
	calls.Wait()
	if made.Load() != 5 {
		t.Fatalf("%d were made", made.Load())
	}
	s := services[0]
	create(t, s, other)
	// A deleted workspace makes room for another one. It can be undeleted only if there is still room.
	items, _, err := s.List(t.Context(), a, service.ListOptions{}, 1, "")
	if err != nil {
		t.Fatal(err)
	}
	gone := items[0]
	if err := s.Delete(t.Context(), a, gone.ID, false); err != nil {
		t.Fatal(err)
	}
	next := create(t, s, a)
	var many *service.TooManyError
	if _, err := s.Undelete(t.Context(), a, gone.ID); !errors.As(err, &many) {
		t.Fatalf("undeleted beyond the limit: %v", err)
	}
	if err := s.Delete(t.Context(), a, next.ID, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Undelete(t.Context(), a, gone.ID); err != nil {
		t.Fatal(err)
	}
	// 0 means no limit.
	s.SetLimits(service.Limits{})
	create(t, s, a)
}

// A workspace in ERROR holds no place (SPEC 5).
func TestAWorkspaceInErrorHoldsNoPlace(t *testing.T) {
	st := storetest.Open(t)
	s := service.New(st, service.Options{Limits: service.Limits{PerUser: 1, Global: 1}})
	a := actor(t, st)
	w := create(t, s, a)
	var limit *service.LimitError
	if _, err := s.Create(t.Context(), a, service.CreateInput{Name: "x"}); !errors.As(err, &limit) {
		t.Fatalf("beyond the limit: %v", err)
	}
	storetest.Set(t, st, w.ID, `phase = 'ERROR', error_reason = 'Timeout'`)
	if running, err := s.Running(t.Context(), a.UserID); err != nil || len(running) != 0 {
		t.Errorf("it is listed as running: %v, %v", running, err)
	}
	create(t, s, a)
}

// The image is pulled again immediately if the owner starts the workspace or chooses an image, but not if the gateway
// requests it, because the gateway repeats its request while a page is open.
func TestTheOwnerHasAnImagePulledAgain(t *testing.T) {
	const waits = `phase = 'STANDBY', operation = 'STARTING', op_started_at = now(), waiting = '{"reason": "PullingImage", "cause": "rate_limit", "tries": 5, "message": "x", "since": "2026-01-02T03:04:05Z"}'`
	const failed = `phase = 'ERROR', operation = 'NONE', op_started_at = NULL, waiting = NULL, error_count = 1, error_message = 'x', error_reason = 'ImagePullFailed'`
	running, same := workspace.DesiredRunning, "code"
	st := storetest.Open(t)
	s := service.New(st, service.Options{Limits: service.Limits{PerUser: 1}})
	s.SetImages(images)
	a := actor(t, st)
	w := create(t, s, a)
	gateway, stranger, admin := a, actor(t, st), actor(t, st)
	gateway.Through, admin.Admin = "gateway", true
	last := ""
	for _, c := range []struct {
		name    string
		set     string
		by      service.Actor
		patch   service.Patch
		retried bool
	}{
		{"the owner starts it", waits, a, service.Patch{DesiredState: &running}, true},
		{"the owner starts it again", waits, a, service.Patch{DesiredState: &running}, true},
		{"an administrator starts it", waits, admin, service.Patch{DesiredState: &running}, true},
		{"the owner chooses the same image", waits, a, service.Patch{ImageRef: &same}, true},
		{"the owner gives it a name", waits, a, service.Patch{Name: ptr("renamed")}, false},
		{"the gateway asks", waits, gateway, service.Patch{DesiredState: &running}, false},
		{"the image is being pulled", strings.ReplaceAll(waits, `"cause": "rate_limit", `, ""), a, service.Patch{DesiredState: &running}, false},
		{"the owner starts it in ERROR", failed, a, service.Patch{DesiredState: &running}, true},
		{"the gateway asks in ERROR", failed, gateway, service.Patch{DesiredState: &running}, false},
		{"another error", strings.ReplaceAll(failed, "ImagePullFailed", "Conflict"), a, service.Patch{DesiredState: &running}, false},
	} {
		storetest.Set(t, st, w.ID, c.set)
		before := storetest.Row(t, st, w.ID)
		if _, err := s.Update(t.Context(), stranger, w.ID, c.patch); !errors.Is(err, service.ErrNotFound) {
			t.Errorf("%s: a stranger: %v", c.name, err)
		}
		got, err := s.Update(t.Context(), c.by, w.ID, c.patch)
		if err != nil || got.ID != w.ID {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		id := ""
		if got.Recovery != nil {
			id = got.Recovery.ID
		}
		if (id != last) != c.retried || c.retried && (got.Recovery.Choice != workspace.RecoverRetry || got.ErrorReason != "") ||
			!c.retried && got.ErrorReason != before.ErrorReason || got.DesiredState != workspace.DesiredRunning {
			t.Errorf("%s: recovery %+v, error %q, desired %s", c.name, got.Recovery, got.ErrorReason, got.DesiredState)
		}
		last = id
	}
	// In ERROR the workspace holds no place. Starting it again takes one.
	storetest.Set(t, st, w.ID, failed)
	other := create(t, s, a)
	var limit *service.LimitError
	if _, err := s.Update(t.Context(), a, w.ID, service.Patch{DesiredState: &running}); !errors.As(err, &limit) {
		t.Errorf("without a place: %v", err)
	}
	if err := s.SetDesired(t.Context(), a, other.ID, workspace.DesiredArchived); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Update(t.Context(), a, w.ID, service.Patch{DesiredState: &running}); err != nil || got.DesiredState != workspace.DesiredRunning || got.ErrorReason != "" {
		t.Errorf("with a place: %+v, %v", got, err)
	}
}
