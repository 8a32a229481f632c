// Package archivetest tests what every object store must do for archives, against several real stores. The callers of
// the suite declare what a store cannot do. The suite tests these limits, too: if a store no longer has a declared
// limit, the test fails.
//
// It talks to the store as the coordinator and storage jobs do, with Amazon's SDK, but owns none of their rules.
// Programs must not import it.
package archivetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/codehub/gateway/coordinator/devenv"
)

// Limit is something that a store does not do. caddymodule/docs/s3.md describes the consequences for archives.
type Limit string

// The limits with which archives still work.
const (
	// NoListOfUploads: unfinished uploads are not listed correctly; the remains of a killed job stay until the store
	// removes them.
	NoListOfUploads Limit = "unfinished uploads of an empty bucket cannot be listed"
	// NoOtherParts: a part cannot be replaced by one with different content. An upload can be restarted, but not
	// continued.
	NoOtherParts Limit = "a part of an upload cannot be replaced"
)

// suite is a store with an empty bucket.
type suite struct {
	*testing.T
	store  devenv.ObjectStore
	client *s3.Client
	limits []Limit
}

// TestStore runs the suite. empty returns the store with an empty bucket. limits are the store's limits.
func TestStore(t *testing.T, empty func(testing.TB) devenv.ObjectStore, limits ...Limit) {
	for _, c := range []struct {
		name string
		test func(suite)
	}{
		{"put, get, head and delete", suite.objects},
		{"conditional writes", suite.conditions},
		{"listing", suite.listing},
		{"uploads in parts", suite.uploads},
		{"a missing key and a missing bucket", suite.missing},
		{"parts of an object", suite.ranges},
		{"keys", suite.keys},
		{"signed addresses", suite.signed},
	} {
		t.Run(c.name, func(t *testing.T) {
			store := empty(t)
			c.test(suite{t, store, store.Client(t), limits})
		})
	}
}

// limited checks that a limit is declared if the store has it, and not declared otherwise. broken reports whether the
// store has it.
func (s suite) limited(limit Limit, broken bool, format string, args ...any) {
	s.Helper()
	if said := slices.Contains(s.limits, limit); broken != said {
		s.Errorf("%s: said %v, seen %v: %s", limit, said, broken, fmt.Sprintf(format, args...))
	}
}

func (s suite) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// put writes an object.
func (s suite) put(key, content string, with ...func(*s3.PutObjectInput)) (*s3.PutObjectOutput, error) {
	in := &s3.PutObjectInput{Bucket: &s.store.Bucket, Key: &key, Body: strings.NewReader(content)}
	for _, f := range with {
		f(in)
	}
	return s.client.PutObject(s.Context(), in)
}

// get reads an object.
func (s suite) get(key string, with ...func(*s3.GetObjectInput)) (string, *s3.GetObjectOutput, error) {
	in := &s3.GetObjectInput{Bucket: &s.store.Bucket, Key: &key}
	for _, f := range with {
		f(in)
	}
	out, err := s.client.GetObject(s.Context(), in)
	if err != nil {
		return "", nil, err
	}
	defer out.Body.Close()
	content, err := io.ReadAll(out.Body)
	return string(content), out, err
}

// status returns the status of the answer and the store's error code.
func status(err error) (status int, code string) {
	var response *awshttp.ResponseError
	var api smithy.APIError
	if errors.As(err, &response) {
		status = response.HTTPStatusCode()
	}
	if errors.As(err, &api) {
		code = api.ErrorCode()
	}
	return status, code
}

func (s suite) objects() {
	const key = "archives/a/b/home.tar.zst.meta"
	for _, content := range []string{"one", "", "another"} {
		put, err := s.put(key, content, func(in *s3.PutObjectInput) {
			in.Metadata = map[string]string{"archive-size": "17", "content-size": "0"}
			in.ContentType = aws.String("text/plain")
		})
		s.must(err)
		got, out, err := s.get(key)
		s.must(err)
		if got != content || aws.ToString(out.ETag) != aws.ToString(put.ETag) || aws.ToString(put.ETag) == "" {
			s.Errorf("%q came back as %q with ETag %q, written with %q", content, got, aws.ToString(out.ETag),
				aws.ToString(put.ETag))
		}
		head, err := s.client.HeadObject(s.Context(), &s3.HeadObjectInput{
			Bucket: &s.store.Bucket, Key: aws.String(key),
		})
		s.must(err)
		for _, metadata := range []map[string]string{out.Metadata, head.Metadata} {
			if metadata["archive-size"] != "17" || metadata["content-size"] != "0" {
				s.Errorf("user metadata: %v", metadata)
			}
		}
		if aws.ToInt64(head.ContentLength) != int64(len(content)) ||
			time.Since(aws.ToTime(head.LastModified)).Abs() > time.Minute {
			s.Errorf("%d bytes of %s", aws.ToInt64(head.ContentLength), aws.ToTime(head.LastModified))
		}
	}
	for range 2 { // a missing object counts as deleted
		out, err := s.client.DeleteObjects(s.Context(), &s3.DeleteObjectsInput{
			Bucket: &s.store.Bucket, Delete: &types.Delete{
				Objects: []types.ObjectIdentifier{{Key: aws.String(key)}}, Quiet: aws.Bool(true),
			},
		})
		s.must(err)
		if len(out.Errors) != 0 {
			s.Errorf("deleting: %+v", out.Errors)
		}
		_, err = s.client.DeleteObject(s.Context(), &s3.DeleteObjectInput{
			Bucket: &s.store.Bucket, Key: aws.String(key),
		})
		s.must(err)
	}
	if _, _, err := s.get(key); err == nil {
		s.Error("a deleted object can be read")
	}
}

func (s suite) conditions() {
	const key = "archives/codehub.json"
	absent := func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") }
	match := func(etag *string) func(*s3.PutObjectInput) {
		return func(in *s3.PutObjectInput) { in.IfMatch = etag }
	}
	first, err := s.put(key, "first", absent)
	s.must(err)
	_, again := s.put(key, "second", absent)
	_, wrong := s.put(key, "second", match(aws.String(`"00000000000000000000000000000000"`)))
	for _, err := range []error{again, wrong} {
		code, _ := status(err)
		if code != http.StatusPreconditionFailed {
			s.Errorf("on a condition that does not hold: %v", err)
		}
	}
	second, err := s.put(key, "second", match(first.ETag))
	s.must(err)
	if _, err := s.put(key, "third", match(first.ETag)); err == nil {
		s.Error("a write on the condition of an older ETag succeeds")
	}
	// Exactly one of several simultaneous writers succeeds.
	var wins int
	var mu sync.Mutex
	var all sync.WaitGroup
	for i := range 4 {
		all.Go(func() {
			if _, err := s.put(key, fmt.Sprint("writer ", i), match(second.ETag)); err == nil {
				mu.Lock()
				defer mu.Unlock()
				wins++
			}
		})
	}
	all.Wait()
	if wins != 1 {
		s.Errorf("%d of 4 writers at once succeed", wins)
	}
	if got, _, err := s.get(key); err != nil || !strings.HasPrefix(got, "writer ") {
		s.Errorf("read %q, %v", got, err)
	}
}

// manyKeys is more than a page of a listing contains.
const manyKeys = 1005

func (s suite) listing() {
	var want []string
	for i := range manyKeys {
		want = append(want, fmt.Sprintf("archives/%04d/home.tar.zst", i))
	}
	keys := make(chan string)
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			for key := range keys {
				if _, err := s.put(key, "x"); err != nil {
					s.Error(err)
				}
			}
		})
	}
	for _, key := range append([]string{"archives-of-others/x", "archive", "zzz/archives/x"}, want...) {
		keys <- key
	}
	close(keys)
	writers.Wait()
	list := func(prefix string) (found []string, pages int) {
		s.Helper()
		pager := s3.NewListObjectsV2Paginator(s.client, &s3.ListObjectsV2Input{
			Bucket: &s.store.Bucket, Prefix: &prefix,
		})
		for pager.HasMorePages() {
			page, err := pager.NextPage(s.Context())
			s.must(err)
			pages++
			for _, o := range page.Contents {
				found = append(found, aws.ToString(o.Key))
				if aws.ToInt64(o.Size) != 1 || time.Since(aws.ToTime(o.LastModified)).Abs() > 10*time.Minute {
					s.Errorf("%s: %d bytes of %s", aws.ToString(o.Key), aws.ToInt64(o.Size), aws.ToTime(o.LastModified))
				}
			}
		}
		return found, pages
	}
	if found, pages := list("archives/"); !slices.Equal(found, want) || pages < 2 {
		s.Errorf("%d keys on %d pages, in order: %v", len(found), pages, slices.IsSorted(found))
	}
	if found, _ := list("archives/0007/"); !slices.Equal(found, want[7:8]) {
		s.Errorf("below a folder: %q", found)
	}
	if found, _ := list("archives/none/"); len(found) != 0 {
		s.Errorf("below nothing: %q", found)
	}
	// This deletes a thousand objects in one request, like the garbage collection.
	objects := make([]types.ObjectIdentifier, 1000)
	for i := range objects {
		objects[i].Key = &want[i]
	}
	out, err := s.client.DeleteObjects(s.Context(), &s3.DeleteObjectsInput{
		Bucket: &s.store.Bucket, Delete: &types.Delete{Objects: objects, Quiet: aws.Bool(true)},
	})
	s.must(err)
	if found, _ := list("archives/"); !slices.Equal(found, want[1000:]) || len(out.Errors) != 0 {
		s.Errorf("after deleting: %d keys, %d errors", len(found), len(out.Errors))
	}
}

func (s suite) uploads() {
	const key = "archives/a/b/home.tar.zst"
	list := func() (ids []string) {
		s.Helper()
		out, err := s.client.ListMultipartUploads(s.Context(), &s3.ListMultipartUploadsInput{
			Bucket: &s.store.Bucket, Prefix: aws.String("archives/"),
		})
		if _, code := status(err); code == "NoSuchUpload" && slices.Contains(s.limits, NoListOfUploads) {
			return nil
		}
		s.must(err)
		for _, u := range out.Uploads {
			if aws.ToString(u.Key) != key || time.Since(aws.ToTime(u.Initiated)).Abs() > time.Minute {
				s.Errorf("%s of %s", aws.ToString(u.Key), aws.ToTime(u.Initiated))
			}
			ids = append(ids, aws.ToString(u.UploadId))
		}
		return ids
	}
	_, err := s.client.ListMultipartUploads(s.Context(), &s3.ListMultipartUploadsInput{Bucket: &s.store.Bucket})
	s.limited(NoListOfUploads, err != nil, "%v", err)

	begin := func() *string {
		s.Helper()
		out, err := s.client.CreateMultipartUpload(s.Context(), &s3.CreateMultipartUploadInput{
			Bucket: &s.store.Bucket, Key: aws.String(key),
		})
		s.must(err)
		return out.UploadId
	}
	upload := func(id *string, number int32, content []byte) (*s3.UploadPartOutput, error) {
		return s.client.UploadPart(s.Context(), &s3.UploadPartInput{
			Bucket: &s.store.Bucket, Key: aws.String(key), UploadId: id, PartNumber: &number,
			Body: bytes.NewReader(content),
		})
	}
	part := func(id *string, number int32, content []byte) types.CompletedPart {
		s.Helper()
		out, err := upload(id, number, content)
		s.must(err)
		return types.CompletedPart{ETag: out.ETag, PartNumber: &number}
	}
	abort := func(id *string) error {
		_, err := s.client.AbortMultipartUpload(s.Context(), &s3.AbortMultipartUploadInput{
			Bucket: &s.store.Bucket, Key: aws.String(key), UploadId: id,
		})
		return err
	}
	left, done := begin(), begin()
	part(left, 1, []byte("of a killed job"))
	_, err = upload(left, 1, []byte("of the next one"))
	s.limited(NoOtherParts, err != nil, "%v", err)
	large := bytes.Repeat([]byte("0123456789abcdef"), 5<<20/16) // the smallest size of all parts but the last
	second := part(done, 2, []byte("the end"))
	part(done, 1, large)
	first := part(done, 1, large) // after a lost answer
	if ids := list(); len(ids) != 2 {
		s.Errorf("unfinished: %q", ids)
	}
	if _, _, err := s.get(key); err == nil {
		s.Error("an unfinished upload can be read")
	}
	complete := func() error {
		_, err := s.client.CompleteMultipartUpload(s.Context(), &s3.CompleteMultipartUploadInput{
			Bucket: &s.store.Bucket, Key: aws.String(key), UploadId: done,
			MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{first, second}},
		})
		return err
	}
	s.must(complete())
	if got, _, err := s.get(key); err != nil || got != string(large)+"the end" {
		s.Errorf("%d bytes, %v", len(got), err)
	}
	if ids := list(); !slices.Equal(ids, []string{*left}) {
		s.Errorf("unfinished after one is complete: %q", ids)
	}
	s.must(abort(left))
	if ids := list(); len(ids) != 0 {
		s.Errorf("unfinished after the other one is aborted: %q", ids)
	}
	if code, _ := status(abort(left)); code != http.StatusNotFound && code != 0 {
		s.Errorf("aborted again: %d", code)
	}
	if got, _, err := s.get(key); err != nil || len(got) != len(large)+7 {
		s.Errorf("the complete one after that: %d bytes, %v", len(got), err)
	}
}

// missing: a wrong bucket must never look like lost archives.
func (s suite) missing() {
	_, err := s.put("archives/there", "x")
	s.must(err)
	if _, _, err := s.get("archives/missing"); err != nil {
		if code, word := status(err); code != http.StatusNotFound || word != "NoSuchKey" {
			s.Errorf("a missing key: %v", err)
		}
	} else {
		s.Error("a missing key can be read")
	}
	elsewhere := s.store.Bucket + "-missing"
	_, err = s.client.GetObject(s.Context(), &s3.GetObjectInput{Bucket: &elsewhere, Key: aws.String("archives/there")})
	if code, word := status(err); code != http.StatusNotFound || word != "NoSuchBucket" {
		s.Errorf("reading in a missing bucket: %v", err)
	}
	_, err = s.client.ListObjectsV2(s.Context(), &s3.ListObjectsV2Input{Bucket: &elsewhere})
	if code, word := status(err); code != http.StatusNotFound || word != "NoSuchBucket" {
		s.Errorf("listing a missing bucket: %v", err)
	}
	_, err = s.client.HeadBucket(s.Context(), &s3.HeadBucketInput{Bucket: &elsewhere})
	if code, _ := status(err); code != http.StatusNotFound {
		s.Errorf("asking for a missing bucket: %v", err)
	}
	_, err = s.client.CreateBucket(s.Context(), &s3.CreateBucketInput{Bucket: &s.store.Bucket})
	if code, word := status(err); err != nil && (code != http.StatusConflict || word != "BucketAlreadyOwnedByYou" &&
		word != "BucketAlreadyExists") {
		s.Errorf("making a bucket that is there: %v", err)
	}
}

func (s suite) ranges() {
	const key = "archives/a/b/home.tar.zst"
	put, err := s.put(key, "0123456789")
	s.must(err)
	from := func(byteRange string, etag *string) func(*s3.GetObjectInput) {
		return func(in *s3.GetObjectInput) { in.Range, in.IfMatch = &byteRange, etag }
	}
	for byteRange, want := range map[string]string{
		"bytes=4-": "456789", "bytes=9-": "9", "bytes=0-0": "0", "bytes=0-": "0123456789",
	} {
		got, out, err := s.get(key, from(byteRange, put.ETag))
		if err != nil || got != want || aws.ToInt64(out.ContentLength) != int64(len(want)) {
			s.Errorf("%s: %q, %v", byteRange, got, err)
		}
	}
	// A resumed download must not mix two archives.
	_, err = s.put(key, "abcdefghij")
	s.must(err)
	_, _, err = s.get(key, from("bytes=4-", put.ETag))
	if code, _ := status(err); code != http.StatusPreconditionFailed {
		s.Errorf("a part of an object that was replaced: %v", err)
	}
}

func (s suite) keys() {
	odd := []string{
		"archives/a+b c/=&?#%41;:@!$'()*,[]~", "archives/한글/é", "archives/-", "archives/\x7f\\\"<>|^`{}\t\n",
		"archives/" + strings.Repeat("long/", 40) + "x",
	}
	for _, key := range odd {
		_, err := s.put(key, key)
		if err != nil {
			s.Errorf("%q: %v", key, err)
			continue
		}
		if got, _, err := s.get(key); err != nil || got != key {
			s.Errorf("%q came back as %q, %v", key, got, err)
		}
	}
	out, err := s.client.ListObjectsV2(s.Context(), &s3.ListObjectsV2Input{
		Bucket: &s.store.Bucket, Prefix: aws.String("archives/"),
	})
	s.must(err)
	var listed []string
	for _, o := range out.Contents {
		listed = append(listed, aws.ToString(o.Key))
	}
	for _, key := range odd {
		if !slices.Contains(listed, key) {
			s.Errorf("%q is not listed: %q", key, listed)
		}
	}
}

func (s suite) signed() {
	const key = "archives/a/b/home.tar.zst"
	signer := s3.NewPresignClient(s.client, s3.WithPresignExpires(time.Minute))
	send := func(signed *v4.PresignedHTTPRequest, err error, body string) (int, string) {
		s.Helper()
		s.must(err)
		return s.send(signed.Method, signed.URL, signed.SignedHeader, body)
	}
	put, err := signer.PresignPutObject(s.Context(), &s3.PutObjectInput{Bucket: &s.store.Bucket, Key: aws.String(key)})
	if code, text := send(put, err, "by a job"); code != http.StatusOK {
		s.Errorf("written: %d %s", code, text)
	}
	get, err := signer.PresignGetObject(s.Context(), &s3.GetObjectInput{Bucket: &s.store.Bucket, Key: aws.String(key)})
	if code, text := send(get, err, ""); code != http.StatusOK || text != "by a job" {
		s.Errorf("read: %d %s", code, text)
	}
	// It is valid for that key and that method only.
	other := *get
	other.URL = strings.Replace(get.URL, "home.tar.zst", "home.tar.zst.meta", 1)
	if code, text := send(&other, nil, ""); code != http.StatusForbidden {
		s.Errorf("another key: %d %s", code, text)
	}
	other = *get
	other.Method = http.MethodPut
	if code, text := send(&other, nil, "by another request"); code != http.StatusForbidden {
		s.Errorf("another method: %d %s", code, text)
	}
}

// send sends a signed request.
func (s suite) send(method, url string, header http.Header, body string) (int, string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	s.must(err)
	for name, values := range header {
		if name != "Host" && name != "Content-Length" {
			request.Header[name] = values
		}
	}
	response, err := http.DefaultClient.Do(request)
	s.must(err)
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	s.must(err)
	return response.StatusCode, string(text)
}
