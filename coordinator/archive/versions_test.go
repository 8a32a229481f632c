package archive_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/workspace"
)

const (
	ws    = workspace.ID("00000000-0000-4000-8000-000000000001")
	other = workspace.ID("00000000-0000-4000-8000-000000000002")
)

func op(n int) string { return fmt.Sprintf("00000000-0000-4000-9000-%012x", n) }

func TestVersionsAreTheCompleteArchivesNewestFirst(t *testing.T) {
	b := fresh(t)
	complete := func(id workspace.ID, n int, content string) string {
		key := id.ArchiveKey(op(n))
		b.put("archives/"+key, content)
		b.put("archives/"+key+".meta", "x")
		return key
	}
	// Their names are not in the order of their times.
	third, first, second := complete(ws, 2, "1"), complete(ws, 3, "22"), complete(ws, 1, "333")
	complete(other, 1, "of another workspace")
	b.put("archives/"+ws.ArchiveKey(op(4)), "without a commit marker")
	b.put("archives/"+ws.ArchiveKey(op(5))+".meta", "a commit marker only")
	b.put("archives/"+string(ws)+"/latest/home.tar.zst", "not ours")
	b.put("archives/"+string(ws)+"/latest/home.tar.zst.meta", "not ours")

	found, err := b.Versions(t.Context(), ws)
	if err != nil || len(found) != 3 {
		t.Fatalf("%+v, %v", found, err)
	}
	sizes := map[string]int64{third: 1, first: 2, second: 3}
	for i, v := range found {
		if v.Size != sizes[v.Key] || v.Current || time.Since(v.Modified).Abs() > time.Hour {
			t.Errorf("%+v", v)
		}
		if info, err := b.head(v.Key); err != nil || !info.Truncate(time.Second).Equal(v.Modified.Truncate(time.Second)) {
			t.Errorf("%s was written %s, %v; not %s", v.Key, info, err, v.Modified)
		}
		if i > 0 && v.Modified.After(found[i-1].Modified) {
			t.Errorf("%s is newer than the one before it", v.Key)
		}
	}
	if found, err := b.Versions(t.Context(), "00000000-0000-4000-8000-000000000003"); err != nil || len(found) != 0 {
		t.Errorf("of a workspace without archives: %+v, %v", found, err)
	}
}

// head returns when an object was written.
func (b bucket) head(key string) (time.Time, error) {
	object := "archives/" + key
	out, err := b.client.HeadObject(b.t.Context(), &s3.HeadObjectInput{Bucket: &b.name, Key: &object})
	if err != nil {
		return time.Time{}, err
	}
	return *out.LastModified, nil
}

func TestVersionsOfManyPages(t *testing.T) {
	// A listing whose pages end between an archive and its commit marker.
	pages := 0
	s := answeredBy(t, func(r *http.Request) (*http.Response, error) {
		n := pages / 2
		name := "archives/" + ws.ArchiveKey(op(n))
		if pages%2 == 1 {
			name += ".meta"
		}
		pages++
		return respond(200, fmt.Sprintf(`<ListBucketResult><IsTruncated>%t</IsTruncated><NextContinuationToken>%d</NextContinuationToken>`+
			`<Contents><Key>%s</Key><Size>1</Size><LastModified>2026-01-01T00:00:%02dZ</LastModified></Contents></ListBucketResult>`,
			pages < 14, pages, name, n))(r)
	})
	found, err := s.Versions(t.Context(), ws)
	if err != nil || len(found) != 7 || pages != 14 {
		t.Fatalf("%d versions on %d pages, %v", len(found), pages, err)
	}
	if !slices.IsSortedFunc(found, func(a, b workspace.ArchiveVersion) int { return b.Modified.Compare(a.Modified) }) {
		t.Errorf("not sorted: %+v", found)
	}
}

func TestAStatSaysWhenTheArchiveWasWritten(t *testing.T) {
	b := fresh(t)
	if err := b.CreateEmpty(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	info, err := b.Stat(t.Context(), key)
	if want, _ := b.head(key); err != nil || !info.Modified.Equal(want) || want.IsZero() {
		t.Errorf("%+v, %v; want %s", info, err, want)
	}
}

func (b bucket) uploads() (all []archive.Upload) {
	b.t.Helper()
	if err := b.ListUploads(b.t.Context(), func(page []archive.Upload) error { all = append(all, page...); return nil }); err != nil {
		b.t.Fatal(err)
	}
	return all
}

func TestUnfinishedUploadsAreListedAndAborted(t *testing.T) {
	b := fresh(t)
	if got := b.uploads(); len(got) != 0 {
		t.Fatalf("in an empty bucket: %+v", got)
	}
	ids := []string{b.s3.BeginUpload(t, "archives/"+key), b.s3.BeginUpload(t, "archives/"+key)}
	b.s3.BeginUpload(t, "other/file")
	got := b.uploads()
	if len(got) != 2 {
		t.Fatalf("%+v", got)
	}
	for _, u := range got {
		if u.Key != key || !slices.Contains(ids, u.ID) || time.Since(u.Initiated).Abs() > time.Hour {
			t.Errorf("%+v", u)
		}
	}
	for range 2 { // the second time it is already aborted
		if err := b.AbortUpload(t.Context(), got[0]); err != nil {
			t.Fatal(err)
		}
	}
	if left := b.uploads(); len(left) != 1 || left[0].ID != got[1].ID {
		t.Errorf("%+v", left)
	}
	enough := errors.New("enough")
	if err := b.ListUploads(t.Context(), func([]archive.Upload) error { return enough }); !errors.Is(err, enough) {
		t.Errorf("ListUploads returns %v", err)
	}
}

func TestAnUploadOutsideThePrefixIsAnError(t *testing.T) {
	s := answeredBy(t, respond(200, `<ListMultipartUploadsResult><Upload><Key>elsewhere/file</Key><UploadId>i</UploadId></Upload></ListMultipartUploadsResult>`))
	err := s.ListUploads(t.Context(), func(page []archive.Upload) error { t.Errorf("got %v", page); return nil })
	if err == nil || !strings.Contains(err.Error(), "elsewhere/file") {
		t.Fatalf("ListUploads returns %v", err)
	}
}

// TestAStoreThatListsNoUploadsHasNone: some stores have no such listing, so no unfinished uploads can be seen.
func TestAStoreThatListsNoUploadsHasNone(t *testing.T) {
	s := answeredBy(t, respond(501, code("NotImplemented")))
	if err := s.ListUploads(t.Context(), func([]archive.Upload) error { return nil }); err != nil {
		t.Errorf("ListUploads returns %v", err)
	}
	if err := s.WriteMarker(t.Context(), nil, ""); err == nil || workspace.ReasonOf(err) == workspace.ReasonUnreachable {
		t.Errorf("WriteMarker returns %v", err)
	}
}
