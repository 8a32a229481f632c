package e2e

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/faulty"
	"github.com/codehub/gateway/coordinator/wait"
)

// TestObjectStoreFaults: during any fault of the object store, workspaces whose files are on this host can run. An
// archived workspace waits and says why, and no workspace gets into ERROR.
func TestObjectStoreFaults(t *testing.T) {
	t.Parallel()
	store := devenv.S3(t)
	proxy := faulty.NewStore(t, store.Endpoint)
	s := play(t, "S3_ENDPOINT="+proxy.URL(), "S3_REGION="+store.Region, "S3_BUCKET="+store.Bucket,
		"S3_ACCESS_KEY="+store.AccessKey, "S3_SECRET_KEY="+store.SecretKey)
	for _, tt := range []struct {
		fault   faulty.Fault
		waiting string // the sentence on the wake page
	}{
		{faulty.Fails, "오브젝트 스토리지가 응답하지 않아"},
		{faulty.Silent, "which does not answer"},
		{faulty.Refuses, "refuses the request"},
	} {
		s.putToSleep(t, "ARCHIVED")
		mark := s.mark()
		proxy.Set(tt.fault)
		want := usually
		want.wake.text = tt.waiting
		s.shows(t, "with an object store that "+string(tt.fault), want)
		proxy.Set(faulty.Healthy)
		s.recovers(t, "an object store that "+string(tt.fault))
		s.logged(t, mark, "the object store cannot be used", "the object store can be used again")
	}
	s.judges(t, "after the faults of the object store")
}

// TestObjectStoreDamages: an archive whose bytes changed on the way is never unpacked.
func TestObjectStoreDamages(t *testing.T) {
	t.Parallel()
	store := devenv.S3(t)
	proxy := faulty.NewStore(t, store.Endpoint)
	s := play(t, "S3_ENDPOINT="+proxy.URL(), "S3_REGION="+store.Region, "S3_BUCKET="+store.Bucket,
		"S3_ACCESS_KEY="+store.AccessKey, "S3_SECRET_KEY="+store.SecretKey)
	s.putToSleep(t, "ARCHIVED")
	proxy.Set(faulty.WrongArchives)
	base := byHost.base(s.installation, s.asleep)
	wait.For(t, "the page says that the archive is damaged", func() error {
		if res, body := s.me.get(t, base, navigation); res.StatusCode != http.StatusBadGateway || !strings.Contains(body, "Its archive is damaged") {
			return fmt.Errorf("%s %s", res.Status, body)
		}
		return nil
	})
	s.worksOn(t)
	proxy.Set(faulty.Healthy)
	s.me.call(t, http.MethodPost, "/api/v1/workspaces/"+s.asleep+"/recover",
		map[string]any{"choice": "archive", "key": s.me.workspace(t, s.asleep).ArchiveKey, "replace_volume": true}, http.StatusOK, nil)
	s.recovers(t, "an object store with wrong bytes")
}
