package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

// CheckFolder is the folder below the prefix that holds the objects of a running [Store.Check]. It contains nothing
// else, and the remains of a killed check are not needed.
const CheckFolder = "codehub-check/"

const (
	// checkLeftover is the age at which a check removes the remains of another one.
	checkLeftover = time.Hour
	// checkCleanup bounds the removal of a check's own object after the caller has given up.
	checkCleanup = 10 * time.Second
	// checkSigned is how long an address signed by a check is valid.
	checkSigned = time.Minute
)

// Defect is something that archives need and the store does not do, or does differently.
type Defect struct {
	// Text says what was tried and what happened, and Remedy what a person can do.
	Text, Remedy string
	// Weak means that archives are still kept and restored, but with less certainty or comfort than with other stores;
	// Text names the difference.
	Weak bool
	// Err is the store's answer, if Text is about one.
	Err error
}

// Check does everything once, with an object of its own, that the coordinator and the storage jobs do with archives. It
// lists, writes, reads, writes on conditions, uploads in parts, reads with a signed address, and deletes. It returns
// what does not work; for a suitable store it returns nothing. A problem that affects every request (no connection, no
// bucket, a wrong key) is reported once.
//
// It must not be called for another installation's bucket. Several checks may run at once.
func (s *Store) Check(ctx context.Context) []Defect {
	c := &checking{Store: s, key: CheckFolder + rand.Text(), content: []byte("CodeHub checks the object store.\n")}
	for _, step := range []struct {
		doing string
		do    func(context.Context) error
		// needs means that the object must have been written before.
		needs bool
	}{
		{"reading the bucket's marker", c.readMarker, false},
		{"listing archives", c.list, false},
		{"listing unfinished uploads", c.uploads, false},
		{"writing an object", c.write, false},
		{"reading an object", c.read, true},
		{"reading a part of an object", c.readPart, true},
		{"writing on a condition", c.writeOnCondition, true},
		{"uploading in parts", c.upload, false},
		{"reading a signed address", c.readSigned, true},
	} {
		if step.needs && !c.written {
			continue
		}
		if err := step.do(ctx); err != nil && c.failed(step.doing, err) || c.blind {
			break
		}
	}
	if c.tried {
		c.remove(ctx)
	}
	return c.found
}

// checking is one run of [Store.Check].
type checking struct {
	*Store
	key     string
	content []byte
	etag    string
	blind   bool // the marker cannot be read
	tried   bool // tried to write: there may be an object
	written bool
	found   []Defect
}

// unexpected is an answer that differs from what archives need.
type unexpected string

func (u unexpected) Error() string { return string(u) }

// failed records why a step failed, and reports whether the other steps would fail for the same reason.
func (c *checking) failed(doing string, err error) (all bool) {
	f := Defect{
		Text: doing + ": " + err.Error(), Err: err, Remedy: "look at what stands between the store and this process, " +
			"or use another store",
	}
	var own unexpected
	var refused *refusedError
	switch kind, cause := classify(err); {
	case kind == cancelled:
		return true // the caller has given up; nothing is known
	case errors.As(err, &own):
	case kind == away:
		f.Text, f.Remedy, all = doing+": the object store is away: "+cause.Error(), adviseAway(err), true
	case errors.Is(cause, ErrNoBucket):
		f.Text, f.Remedy, all = doing+": the object store has no bucket "+c.opts.Bucket,
			"create it, or check s3 bucket, endpoint and path_style", true
		f.Err = cause
	case errors.As(cause, &refused):
		// Other permissions may exist even if this one is missing.
		f.Text, f.Remedy, all = doing+": the object store refuses: "+refused.err.Error(), refused.remedy, !refused.one
	}
	c.found = append(c.found, f)
	return all
}

// weak records a weaker guarantee.
func (c *checking) weak(remedy, text string) {
	c.found = append(c.found, Defect{Text: text, Remedy: remedy, Weak: true})
}

// readMarker is the first request. If it gets no answer, the check writes nothing, because the bucket may belong to
// another system.
func (c *checking) readMarker(ctx context.Context) error {
	out, err := c.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &c.opts.Bucket, Key: c.object(MarkerKey)})
	if err == nil {
		return out.Body.Close()
	}
	if kind, cause := classify(err); kind == notFound && !errors.Is(cause, ErrNoBucket) {
		return nil
	}
	c.blind = true
	return err
}

// list removes the remains of killed checks.
func (c *checking) list(ctx context.Context) error {
	out, err := c.client.ListObjectsV2(ctx, &s3.ListObjectsV2Input{
		Bucket: &c.opts.Bucket, Prefix: c.object(CheckFolder),
	})
	if err != nil {
		return err
	}
	var left []string
	for _, o := range out.Contents {
		key, ok := strings.CutPrefix(aws.ToString(o.Key), c.opts.Prefix)
		if ok && c.now().Sub(aws.ToTime(o.LastModified)) > checkLeftover {
			left = append(left, key)
		}
	}
	if len(left) > 0 {
		// The next check can remove what this one leaves, and remove reports why it is left.
		_, _ = c.Delete(ctx, left)
	}
	return nil
}

// uploads removes the unfinished uploads of killed checks.
func (c *checking) uploads(ctx context.Context) error {
	out, err := c.client.ListMultipartUploads(ctx, &s3.ListMultipartUploadsInput{
		Bucket: &c.opts.Bucket, Prefix: c.object(CheckFolder),
	})
	if code, status := answer(err); code == codeNotImplemented || status == http.StatusNotImplemented ||
		status == http.StatusMethodNotAllowed {
		c.weak("let the store itself remove unfinished uploads after a day (a lifecycle rule)",
			"the store does not list unfinished uploads: what killed storage jobs leave is not found and stays")
		return nil
	}
	if code, _ := answer(err); code == codeNoUploads {
		return nil
	}
	if err != nil {
		return err
	}
	for _, u := range out.Uploads {
		if c.now().Sub(aws.ToTime(u.Initiated)) > checkLeftover {
			// The next check can abort what remains now.
			_, _ = c.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
				Bucket: &c.opts.Bucket, Key: u.Key, UploadId: u.UploadId,
			})
		}
	}
	return nil
}

// write writes the object, unconditionally.
func (c *checking) write(ctx context.Context) error {
	c.tried = true
	out, err := c.put(ctx, nil)
	if err != nil {
		return err
	}
	c.written, c.etag = true, aws.ToString(out.ETag)
	if asked := c.opts.ServerSideEncryption(); string(out.ServerSideEncryption) != asked.Get(headerSSE) &&
		len(asked) > 0 {
		c.weak("use a store that encrypts, or remove s3 sse and encrypt the disk of the store",
			"the store does not say that it has encrypted what s3 sse asks it to: archives may lie there as they are")
	}
	return nil
}

// put writes the object, if the conditions hold.
func (c *checking) put(ctx context.Context, conditions func(*s3.PutObjectInput)) (*s3.PutObjectOutput, error) {
	in := &s3.PutObjectInput{
		Bucket: &c.opts.Bucket, Key: c.object(c.key), Body: bytes.NewReader(c.content),
		ContentLength: aws.Int64(int64(len(c.content))),
	}
	if conditions != nil {
		conditions(in)
	}
	return c.client.PutObject(ctx, in)
}

// errOtherContent means that content was lost or changed on the way.
const errOtherContent unexpected = "what was read is not what was written"

func (c *checking) read(ctx context.Context) error {
	out, err := c.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &c.opts.Bucket, Key: c.object(c.key)})
	if err != nil {
		return err
	}
	return c.compare(out.Body, c.content)
}

// compare reads a body to its end, and closes it.
func (c *checking) compare(body io.ReadCloser, want []byte) error {
	defer body.Close()
	got, err := io.ReadAll(io.LimitReader(body, int64(len(want))+1))
	if err == nil && !bytes.Equal(got, want) {
		err = errOtherContent
	}
	return err
}

// readPart reads a part of the object, as a resumed download does.
func (c *checking) readPart(ctx context.Context) error {
	from := len(c.content) / 2
	in := &s3.GetObjectInput{
		Bucket: &c.opts.Bucket, Key: c.object(c.key), Range: aws.String(fmt.Sprintf("bytes=%d-", from)),
		IfMatch: &c.etag,
	}
	out, err := c.client.GetObject(ctx, in)
	if err != nil {
		return err
	}
	return c.compare(out.Body, c.content[from:])
}

// writeOnCondition tries conditions that do not hold, as if another process had written first.
func (c *checking) writeOnCondition(ctx context.Context) error {
	for _, conditions := range []func(*s3.PutObjectInput){
		func(in *s3.PutObjectInput) { in.IfNoneMatch = aws.String("*") },
		func(in *s3.PutObjectInput) { in.IfMatch = aws.String(`"00000000000000000000000000000000"`) },
	} {
		_, err := c.put(ctx, conditions)
		switch _, status := answer(err); {
		case err == nil:
			c.weak("give each installation a bucket of its own, or use a store with conditional writes "+
				"(If-None-Match, If-Match)",
				"the store ignores the conditions of writes: of two installations that begin with this bucket at the "+
					"same moment, both may take it for theirs")
			return nil
		case status == http.StatusNotImplemented:
			c.found = append(c.found, Defect{
				Text: "writing on a condition: the object store refuses: " + err.Error(),
				Remedy: "use a store with conditional writes (If-None-Match, If-Match): without them the bucket " +
					"cannot be marked as this installation's",
				Err: err,
			})
			return nil
		case status != http.StatusPreconditionFailed && status != http.StatusConflict:
			return err
		}
	}
	// The bucket's marker is written on a condition that holds.
	out, err := c.put(ctx, func(in *s3.PutObjectInput) { in.IfMatch = &c.etag })
	if err == nil {
		c.etag = aws.ToString(out.ETag)
	}
	return err
}

// upload begins an upload, sends a part and aborts it.
func (c *checking) upload(ctx context.Context) error {
	key := c.object(c.key + ".parts")
	begun, err := c.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &c.opts.Bucket, Key: key})
	if err != nil {
		return err
	}
	_, err = c.client.UploadPart(ctx, &s3.UploadPartInput{
		Bucket: &c.opts.Bucket, Key: key, UploadId: begun.UploadId, PartNumber: aws.Int32(1),
		Body: bytes.NewReader(c.content),
	})
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkCleanup)
	defer cancel()
	_, aborted := c.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{
		Bucket: &c.opts.Bucket, Key: key, UploadId: begun.UploadId,
	})
	if err == nil {
		err = aborted
	}
	return err
}

// readSigned reads as a storage job does: it has no key, only a signed address.
func (c *checking) readSigned(ctx context.Context) error {
	signed, err := s3.NewPresignClient(c.client, func(o *s3.PresignOptions) {
		o.Expires, o.Presigner = checkSigned, signsByStoreClock{c.Store}
	}).PresignGetObject(ctx, &s3.GetObjectInput{Bucket: &c.opts.Bucket, Key: c.object(c.key)})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, signed.Method, signed.URL, nil)
	if err != nil {
		return unexpected("the signed address cannot be read") // err would repeat the signature
	}
	request.Header = signed.SignedHeader.Clone()
	response, err := c.client.Options().HTTPClient.Do(request)
	if err != nil {
		var sent interface{ Timeout() bool }
		if errors.As(err, &sent) && sent.Timeout() {
			return context.DeadlineExceeded
		}
		return unexpected("the signed address cannot be reached") // err would repeat the signature
	}
	if response.StatusCode != http.StatusOK {
		response.Body.Close()
		return unexpected(fmt.Sprintf("the store answers %s: storage jobs reach archives by such addresses",
			response.Status))
	}
	return c.compare(response.Body, c.content)
}

// signsByStoreClock signs by the store's clock instead of this machine's.
type signsByStoreClock struct{ *Store }

func (s signsByStoreClock) PresignHTTP(ctx context.Context, credentials aws.Credentials, r *http.Request, hash, service,
	region string, _ time.Time,
	options ...func(*v4.SignerOptions)) (string, http.Header, error) {
	return v4.NewSigner(func(o *v4.SignerOptions) { o.DisableURIPathEscaping = true }).PresignHTTP(ctx, credentials, r,
		hash, service, region, s.now(), options...)
}

// remove deletes the object, even if the caller has given up, and checks that it is gone.
func (c *checking) remove(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), checkCleanup)
	defer cancel()
	failed := make(map[string]error)
	err := c.deleteSome(ctx, []string{c.key}, failed)
	if !c.written {
		return // the store has said enough, and most likely there is no object
	}
	if refused := failed[c.key]; err == nil && refused != nil {
		c.found = append(c.found, Defect{
			Text: "deleting an object: the object store refuses: " + refused.Error(),
			Remedy: "check that the policy of s3 access_key allows " + permissions["DeleteObjects"] +
				", and that the bucket is not locked", Err: refused,
		})
		return
	}
	if err == nil {
		var out *s3.GetObjectOutput
		if out, err = c.client.GetObject(ctx, &s3.GetObjectInput{
			Bucket: &c.opts.Bucket, Key: c.object(c.key),
		}); err == nil {
			out.Body.Close()
			err = unexpected("the object is there after it was deleted")
		} else if kind, _ := classify(err); kind == notFound {
			return
		}
	}
	c.failed("deleting an object", err)
}
