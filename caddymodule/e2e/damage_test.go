package e2e

import (
	"bytes"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// TestDamagedArchive: a restore that fails leaves a volume behind that holds
// nothing. It is never taken for the workspace's home (SPEC 12.1): once the archive
// is whole again, the file is there; and deleting the workspace takes it away.
func TestDamagedArchive(t *testing.T) {
	t.Parallel()
	in := install(t)
	me := in.admin(t)
	repaired, deleted := me.create(t, "repaired"), me.create(t, "deleted")
	base := addresses[0].base(in, repaired.ID)
	if out := me.run(t, base, "echo kept > file && cat file"); out != "kept" {
		t.Fatalf("the terminal printed %q", out)
	}
	for _, w := range []*item{&repaired, &deleted} {
		me.wish(t, w.ID, "ARCHIVED")
	}
	whole := map[string][]byte{}
	for _, w := range []*item{&repaired, &deleted} {
		*w = me.await(t, w.ID, "ARCHIVED")
		key := "archives/" + w.ArchiveKey
		whole[key] = in.object(t, key)
		damaged := bytes.Clone(whole[key])
		damaged[len(damaged)/2] ^= 1
		in.putObject(t, key, damaged)
		me.wish(t, w.ID, "RUNNING")
	}
	for _, w := range []item{repaired, deleted} {
		if w = me.await(t, w.ID, "ERROR"); w.ErrorReason != "ArchiveCorrupted" {
			t.Fatalf("a damaged archive: %+v", w)
		}
	}

	me.call(t, http.MethodDelete, "/api/v1/workspaces/"+deleted.ID, nil, http.StatusAccepted, nil)
	key := "archives/" + repaired.ArchiveKey
	in.putObject(t, key, whole[key])
	me.call(t, http.MethodPost, "/api/v1/workspaces/"+repaired.ID+"/recover", nil, http.StatusOK, nil)
	eventually(t, "it answers again", func() error { return me.shows(t, base) })
	if out := me.run(t, base, "cat file"); out != "kept" {
		t.Errorf("after the repair the file holds %q", out)
	}
	eventually(t, "container and volume are gone", func() error { return in.leftovers(t, deleted.ID) })
}

func (in *installation) object(t testing.TB, key string) []byte {
	t.Helper()
	out, err := in.s3.GetObject(t.Context(), &s3.GetObjectInput{Bucket: &in.bucket, Key: &key})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Body.Close()
	b, err := io.ReadAll(out.Body)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (in *installation) putObject(t testing.TB, key string, content []byte) {
	t.Helper()
	_, err := in.s3.PutObject(t.Context(), &s3.PutObjectInput{Bucket: &in.bucket, Key: &key, Body: bytes.NewReader(content)})
	if err != nil {
		t.Fatal(err)
	}
}
