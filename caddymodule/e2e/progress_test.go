package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestRestoreShowsHowFarItIs: while an archive arrives slowly, the wake page and the API show how much of it is there.
// In the end the workspace is restored, and no progress is shown any more.
func TestRestoreShowsHowFarItIs(t *testing.T) {
	t.Parallel()
	store := devenv.S3(t)
	proxy := faulty.NewStore(t, store.Endpoint)
	in := install(t, "S3_ENDPOINT="+proxy.URL(), "S3_REGION="+store.Region, "S3_BUCKET="+store.Bucket,
		"S3_ACCESS_KEY="+store.AccessKey, "S3_SECRET_KEY="+store.SecretKey)
	me := in.admin(t)
	id := me.create(t, "restored slowly").ID
	base := me.enter(t, id)
	const size = 8 << 20
	sum := me.run(t, base, fmt.Sprintf("head -c %d /dev/urandom > big; sync; sha256sum big", size))
	me.setDesiredState(t, id, "ARCHIVED")
	me.awaitPhase(t, id, "ARCHIVED")

	last := -1
	for _, percent := range []int64{20, 60} {
		proxy.Hold(size * percent / 100)
		if last < 0 {
			if res, _ := me.get(t, base, navigation); res.StatusCode != http.StatusBadGateway {
				t.Fatalf("opening it: %s", res.Status)
			}
		}
		// The job may have read a little less than what has passed through the proxy.
		for _, says := range []func() (int, error){
			func() (int, error) { return me.wakeStatus(t, base) },
			func() (int, error) { return me.apiProgress(t, id) },
		} {
			wait.For(t, fmt.Sprintf("it says that about %d %% are there", percent), func() error {
				got, err := says()
				if err == nil && (got <= last || got < int(percent)-10 || got > int(percent)) {
					err = fmt.Errorf("it says %d %%", got)
				}
				return err
			})
		}
		last = int(percent)
		if _, page := me.get(t, base, navigation); !strings.Contains(page, "<progress max=") || !strings.Contains(page, "downloading and unpacking, ") {
			t.Errorf("the wake page does not say how far it is:\n%s", page)
		}
	}
	proxy.Release()
	me.awaitPhase(t, id, "RUNNING")
	me.enter(t, id)
	if out := me.run(t, base, "sha256sum big"); out != sum {
		t.Errorf("restored %q, was %q", out, sum)
	}
	if _, err := me.apiProgress(t, id); err == nil {
		t.Error("a workspace that runs has the progress of its restore")
	}
}

// wakeStatus returns the percentage that the wake page shows for the restore.
func (u *user) wakeStatus(t testing.TB, base string) (int, error) {
	t.Helper()
	_, body := u.get(t, base+".codehub/status", subresource)
	var status struct {
		Steps []struct {
			Stage, State string
			Percent      *int
		}
	}
	if err := json.Unmarshal([]byte(body), &status); err != nil {
		return 0, fmt.Errorf("%w: %s", err, body)
	}
	for _, s := range status.Steps {
		if s.Stage == "restoring" && s.State == "now" && s.Percent != nil {
			return *s.Percent, nil
		}
	}
	return 0, fmt.Errorf("the status is %s", body)
}

// apiProgress returns the percentage of a restore in the API.
func (u *user) apiProgress(t testing.TB, id string) (int, error) {
	t.Helper()
	var w struct {
		Operation string
		Progress  *struct {
			Step    string
			Percent *int
			Total   int64 `json:"total_bytes"`
		}
	}
	u.call(t, http.MethodGet, "/api/v1/workspaces/"+id, nil, http.StatusOK, &w)
	if p := w.Progress; w.Operation != "RESTORING" || p == nil || p.Step != "unpack" || p.Percent == nil || p.Total == 0 {
		return 0, fmt.Errorf("%+v, %+v", w, w.Progress)
	}
	return *w.Progress.Percent, nil
}
