package processtest

import (
	"archive/tar"
	"bytes"
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/klauspost/compress/zstd"

	"github.com/codehub/gateway/coordinator/archive"
	"github.com/codehub/gateway/coordinator/backend"
	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/coordinator/devenv/inspect"
	"github.com/codehub/gateway/coordinator/wait"
	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// storageJobs runs storage jobs on the container backend. Their program is the job's test binary.
type storageJobs struct {
	*installation
	backend  backend.Backend
	archives *archive.Store

	mu sync.Mutex
	// steps are the steps before which a job of each kind was killed. ended is the lowest number that was found to be
	// beyond a job's last step.
	steps map[workspace.JobKind][]string
	ended map[workspace.JobKind]int
}

func newStorageJobs(t *testing.T) *storageJobs {
	t.Helper()
	j := &storageJobs{
		installation: installBackend(t),
		steps:        make(map[workspace.JobKind][]string), ended: make(map[workspace.JobKind]int),
	}
	j.config.Docker.JobImage = devenv.StorageJobTestImage(t)
	if k := j.config.Kubernetes; k != nil {
		k.Spec.JobImage = j.config.Docker.JobImage
	}
	var err error
	if j.backend, err = j.config.backend(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { j.backend.Close() })
	if j.archives, err = archive.New(j.config.Archive); err != nil {
		t.Fatal(err)
	}
	return j
}

// start starts a job as the leader does. volumeOp is the operation that made the volume.
func (j *storageJobs) start(t *testing.T, s backend.JobSpec, key, volumeOp string, env ...string) {
	t.Helper()
	granted, err := j.archives.Grant(t.Context(), s.Kind, key, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if s.Grant, err = json.Marshal(granted); err != nil {
		t.Fatal(err)
	}
	s.Env = append(j.archives.JobEnv(key), contract.EnvOperation+"="+volumeOp, devenv.StorageJobTestEnv+"=1")
	if s.Kind == workspace.JobRestore {
		s.Env = append(s.Env, contract.EnvNewVolume+"=true")
	}
	s.Env = append(s.Env, env...)
	wait.For(t, "the "+string(s.Kind)+" job starts", func() error { return j.backend.StartJob(t.Context(), s) })
}

// end waits for the job's end, and returns the backend's report about it.
func (j *storageJobs) end(t *testing.T, s backend.JobSpec) (job workspace.Job) {
	t.Helper()
	wait.For(t, "the "+string(s.Kind)+" job ends", func() error {
		all, err := j.backend.Jobs(t.Context(), s.ID)
		if err != nil {
			return err
		}
		for _, job = range all[s.ID] {
			if job.OpID == s.OpID && (job.State == workspace.JobSucceeded || job.State == workspace.JobFailed) {
				return nil
			}
		}
		return fmt.Errorf("%+v", all)
	})
	return job
}

// remove removes the job with its result, without the product's help.
func (j *storageJobs) remove(t *testing.T, s backend.JobSpec) {
	t.Helper()
	wait.For(t, "the "+string(s.Kind)+" job is removed", func() error {
		all, err := j.engine.Containers(t.Context(), string(s.ID))
		for _, c := range all {
			if c.Kind == inspect.Job && c.Job == string(s.Kind) {
				err = errors.Join(err, j.engine.RemoveJob(t.Context(), c))
			}
		}
		if err != nil {
			return err
		}
		left, err := j.backend.Jobs(t.Context(), s.ID)
		if err == nil && slices.ContainsFunc(left[s.ID], func(job workspace.Job) bool { return job.OpID == s.OpID }) {
			err = fmt.Errorf("it is still there: %+v", left)
		}
		return err
	})
}

// despiteKills starts a job that is killed before its n-th step; if the job has fewer steps, it ends normally. The
// operation's next job is killed halfway to that step. despiteKills removes both jobs together with the records of
// their ends, and expects the third job to succeed.
func (j *storageJobs) despiteKills(t *testing.T, n int, s backend.JobSpec, key, volumeOp string) {
	t.Helper()
	killed := j.killAt(t, n, s, key, volumeOp)
	j.note(s.Kind, n, killed)
	again := j.killAt(t, n/2+1, s, key, volumeOp)
	j.start(t, s, key, volumeOp)
	if last := j.end(t, s); last.State != workspace.JobSucceeded {
		t.Fatalf("the %s job after kills before %q and %q: %+v", s.Kind, killed, again, last)
	}
}

// killAt starts a job that is killed before its n-th step, and removes the job and the record of its end. It returns
// the name of that step, or "" if the job has no such step and has succeeded. Like an eviction, a kill does not count
// as the job's failure.
func (j *storageJobs) killAt(t *testing.T, n int, s backend.JobSpec, key, volumeOp string) (step string) {
	t.Helper()
	j.start(t, s, key, volumeOp, fmt.Sprintf("%s=%d", devenv.StorageJobKillAtEnv, n))
	job := j.end(t, s)
	_, step, killed := strings.Cut(job.Message, "exit code 137: killed before: ")
	if !(killed && job.State == workspace.JobFailed && job.Disrupted) && job.State != workspace.JobSucceeded {
		t.Fatalf("the %s job that is to be killed before step %d: %+v", s.Kind, n, job)
	}
	j.remove(t, s)
	return step
}

// note records the step before which a job was killed, or that the job has no n-th step.
func (j *storageJobs) note(kind workspace.JobKind, n int, step string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if step == "" {
		j.ended[kind] = min(n, cmp.Or(j.ended[kind], n))
		return
	}
	j.steps[kind] = append(j.steps[kind], step)
}

// over reports whether a job of that kind is known to have fewer than n steps. Such a job was not killed: only its
// result was lost when it was removed.
func (j *storageJobs) over(kind workspace.JobKind, n int) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ended[kind] != 0 && n >= j.ended[kind]
}

// TestAJobIsKilledAnywhere: storage jobs in real containers are killed before each of their steps and after the last
// one. The record of a job's end is lost with its container. The next job of the same operation finishes the work.
// Afterwards, the home and its archive have the expected content (SPEC 12.12).
func TestAJobIsKilledAnywhere(t *testing.T) {
	t.Parallel()
	j, first := newStorageJobs(t), workspace.ID(uuid.NewString()).ArchiveKey("first")
	want := j.putHome(t, first)
	const lanes = 3
	t.Run("steps", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane+1), func(t *testing.T) {
				t.Parallel()
				for n := lane + 1; !j.over(workspace.JobRestore, n); n += lanes {
					j.goThrough(t, n, first, want)
				}
			})
		}
	})
	for kind, least := range map[workspace.JobKind]int{workspace.JobRestore: 12, workspace.JobArchive: 6} {
		t.Logf("%s jobs were killed before: %s", kind, strings.Join(j.steps[kind], ", "))
		if len(j.steps[kind]) < least {
			t.Errorf("%s jobs were killed before %d steps only", kind, len(j.steps[kind]))
		}
	}
}

// goThrough restores the archive under key into a new home, and archives that home. Jobs of both kinds are killed
// before their n-th step and halfway to it. It compares the new archive with the expected content of the home.
func (j *storageJobs) goThrough(t *testing.T, n int, key string, want map[string]string) {
	t.Helper()
	id, op := workspace.ID(uuid.NewString()), uuid.NewString()
	if err := j.backend.Provision(t.Context(), backend.VolumeSpec{ID: id, OpID: op}); err != nil {
		t.Fatal(err)
	}
	j.despiteKills(t, n, backend.JobSpec{ID: id, Kind: workspace.JobRestore, OpID: op}, key, op)
	back := backend.JobSpec{ID: id, Kind: workspace.JobArchive, OpID: uuid.NewString()}
	to := id.ArchiveKey(back.OpID)
	if j.over(back.Kind, n) {
		j.start(t, back, to, op)
		if job := j.end(t, back); job.State != workspace.JobSucceeded {
			t.Fatalf("archiving a home whose restore was killed before step %d: %+v", n, job)
		}
	} else {
		j.despiteKills(t, n, back, to, op)
	}
	if got := j.listing(t, to); !maps.Equal(got, want) {
		t.Errorf("after kills before step %d:\nwant %v\n got %v", n, want, got)
	}
	if err := j.backend.DeleteJobs(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := j.backend.DeleteVolume(t.Context(), id, op); err != nil {
		t.Fatal(err)
	}
}

// putHome stores the archive of a small home, made with the standard library, and returns its
// listing.
func (j *storageJobs) putHome(t *testing.T, key string) map[string]string {
	t.Helper()
	random := make([]byte, 64<<10)
	_, _ = rand.Read(random)
	var content bytes.Buffer
	compressed, err := zstd.NewWriter(&content)
	if err != nil {
		t.Fatal(err)
	}
	size := counter{w: compressed}
	w := tar.NewWriter(&size)
	for _, e := range []struct {
		tar.Header
		body []byte
	}{
		{tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o750}, nil},
		{tar.Header{Typeflag: tar.TypeDir, Name: "./folder/", Mode: 0o700}, nil},
		{tar.Header{Typeflag: tar.TypeReg, Name: "./folder/random", Mode: 0o640}, random},
		{tar.Header{Typeflag: tar.TypeReg, Name: "./folder/empty", Mode: 0o600}, nil},
		{tar.Header{Typeflag: tar.TypeSymlink, Name: "./link", Linkname: "folder/random", Mode: 0o777}, nil},
	} {
		e.Uid, e.Gid, e.Size = 1000, 1000, int64(len(e.body))
		e.ModTime, e.Format = time.Unix(1_700_000_000, 5), tar.FormatPAX
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), compressed.Close()); err != nil {
		t.Fatal(err)
	}
	name := archive.DefaultPrefix + key
	j.putObject(t.Context(), t, name, content.Bytes(), nil)
	marker := contract.FormatMeta(fmt.Sprintf("%x", sha256.Sum256(content.Bytes())))
	j.putObject(t.Context(), t, name+contract.MetaSuffix, []byte(marker), map[string]string{
		contract.MetaArchiveSize: strconv.Itoa(content.Len()), contract.MetaContentSize: strconv.FormatInt(size.n, 10),
	})
	return j.listing(t, key)
}

// counter counts the bytes written.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n += int64(n)
	return n, err
}

// listing describes each file in the archive under key, and checks the archive against its marker.
func (j *storageJobs) listing(t *testing.T, key string) map[string]string {
	t.Helper()
	content, _ := j.object(t.Context(), t, archive.DefaultPrefix+key)
	info, err := j.archives.Stat(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(content)); sum != info.SHA256 {
		t.Fatalf("the archive's checksum is %s, its marker says %s", sum, info.SHA256)
	}
	stream, err := zstd.NewReader(bytes.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	files := make(map[string]string)
	for r := tar.NewReader(stream); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		body := sha256.New()
		if _, err := io.Copy(body, r); err != nil {
			t.Fatal(err)
		}
		attributes := maps.Clone(h.PAXRecords)
		maps.DeleteFunc(attributes, func(name, _ string) bool { return !strings.HasPrefix(name, "SCHILY.xattr.") })
		files[h.Name] = fmt.Sprintf("%c %o %d:%d %s %q %v %x", h.Typeflag, h.Mode, h.Uid, h.Gid,
			h.ModTime.UTC().Format(time.RFC3339Nano), h.Linkname, attributes, body.Sum(nil))
	}
}
