package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/codehub/gateway/coordinator/devenv"
	"github.com/codehub/gateway/storagejob/contract"
)

const (
	asJob  = devenv.StorageJobTestEnv
	killAt = devenv.StorageJobKillAtEnv
)

func TestMain(m *testing.M) {
	if os.Getenv(asJob) != "" {
		if text := os.Getenv(killAt); text != "" {
			os.Exit(run(context.Background(), os.Args[1:], os.Getenv, os.Stdout, os.Stderr, killer(text)))
		}
		main()
	}
	os.Exit(m.Run())
}

// killer kills this process before its n-th step.
func killer(n string) func(string) error {
	left, err := strconv.Atoi(n)
	if err != nil {
		panic(err)
	}
	return func(what string) error {
		if left--; left == 0 {
			fmt.Fprintf(os.Stderr, "killed before: %s\n", what)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			// The first process of a container cannot kill itself. Therefore it also exits immediately, with the code
			// that its container would get from a kill.
			os.Exit(128 + int(syscall.SIGKILL))
		}
		return nil
	}
}

// bench is a bucket for one archive, with the job's environment.
type bench struct {
	t      testing.TB
	store  devenv.ObjectStore
	client *s3.Client
	bucket string
	key    string
	env    []string
	// scratch is the job's folder for everything besides the volume.
	scratch string
}

const testKey = "archives/0b7c/5f1e/home.tar.zst"

func newBench(t testing.TB) *bench {
	t.Helper()
	store := devenv.S3(t)
	return &bench{
		t: t, scratch: t.TempDir(), store: store, bucket: store.Bucket, key: testKey, client: store.Client(t),
		env: []string{
			asJob + "=1", contract.EnvArchiveURL + "=" + contract.ArchiveURL(store.Bucket, testKey),
			contract.EnvAccessKey + "=" + store.AccessKey, contract.EnvSecretKey + "=" + store.SecretKey,
			contract.EnvRegion + "=" + store.Region, contract.EnvEndpoint + "=" + store.Endpoint,
			contract.EnvPathStyle + "=true",
		},
	}
}

// command returns the job as its own process, without this one's environment.
func (b *bench) command(job, volume string, env ...string) *exec.Cmd {
	exe, err := os.Executable()
	must(b.t, err)
	cmd := exec.Command(exe, job, "--volume", volume, "--progress", "1ms", "--scratch", b.scratch)
	cmd.Env = append(append([]string{}, b.env...), env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	return cmd
}

// run runs the job to its end and returns its exit code and result.
func (b *bench) run(job, volume string, env ...string) (int, contract.Result) {
	b.t.Helper()
	cmd := b.command(job, volume, env...)
	out, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		b.t.Fatal(err)
	}
	res, ok := contract.ParseResult(out)
	if !ok {
		b.t.Fatalf("the output does not end in a result: %q", out)
	}
	if strings.Contains(string(out), b.store.SecretKey) {
		b.t.Errorf("the output holds the secret key")
	}
	return cmd.ProcessState.ExitCode(), res
}

// ok runs the job and expects success.
func (b *bench) ok(job, volume string) contract.Result {
	b.t.Helper()
	code, res := b.run(job, volume)
	if code != contract.ExitOK || !res.OK || res.Error != "" {
		b.t.Fatalf("%s: exit code %d, %+v", job, code, res)
	}
	return res
}

// fails runs the job and expects this exit code and an error in the result.
func (b *bench) fails(want int, job, volume string, env ...string) contract.Result {
	b.t.Helper()
	code, res := b.run(job, volume, env...)
	if code != want || res.OK || res.Error == "" {
		b.t.Fatalf("%s: exit code %d instead of %d, %+v", job, code, want, res)
	}
	return res
}

// kill starts the job, sends the signal when a progress line meets the condition, and waits for the end. It reports
// whether the signal was sent.
func (b *bench) kill(sig os.Signal, job, volume string, when func(contract.ProgressLine) bool, env ...string) (int, bool) {
	b.t.Helper()
	cmd := b.command(job, volume, env...)
	sent := false
	b.watch(cmd, func(p contract.ProgressLine) {
		if !sent && when(p) {
			sent = true
			must(b.t, cmd.Process.Signal(sig))
		}
	})
	return cmd.ProcessState.ExitCode(), sent // the caller checks the exit code
}

// watch runs the job to its end, passes each line of progress to see, and returns the result if the job printed one.
func (b *bench) watch(cmd *exec.Cmd, see func(contract.ProgressLine)) (res contract.Result) {
	b.t.Helper()
	out, err := cmd.StdoutPipe()
	must(b.t, err)
	must(b.t, cmd.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var p contract.ProgressLine
		must(b.t, json.Unmarshal(lines.Bytes(), &p))
		if p.Event == contract.EventProgress {
			see(p)
		} else {
			must(b.t, json.Unmarshal(lines.Bytes(), &res))
		}
	}
	_ = cmd.Wait()
	return res
}

func (b *bench) get(key string) (content []byte, ok bool) {
	b.t.Helper()
	out, err := b.client.GetObject(b.t.Context(), &s3.GetObjectInput{Bucket: &b.bucket, Key: &key})
	if err != nil {
		return nil, false
	}
	defer out.Body.Close()
	content, err = io.ReadAll(out.Body)
	must(b.t, err)
	return content, true
}

func (b *bench) put(key string, content []byte) {
	b.t.Helper()
	_, err := b.client.PutObject(b.t.Context(),
		&s3.PutObjectInput{Bucket: &b.bucket, Key: &key, Body: bytes.NewReader(content)})
	must(b.t, err)
}

// putMeta commits content as the archive, and records these sizes.
func (b *bench) putMeta(content []byte, sizes map[string]string) {
	b.t.Helper()
	b.put(b.key, content)
	key := meta
	_, err := b.client.PutObject(b.t.Context(), &s3.PutObjectInput{
		Bucket: &b.bucket, Key: &key, Metadata: sizes,
		Body: strings.NewReader(contract.FormatMeta(fmt.Sprintf("%x", sha256.Sum256(content)))),
	})
	must(b.t, err)
}

func (b *bench) remove(key string) {
	b.t.Helper()
	_, err := b.client.DeleteObject(b.t.Context(), &s3.DeleteObjectInput{Bucket: &b.bucket, Key: &key})
	must(b.t, err)
}

// unfinished counts multipart uploads that were neither completed nor aborted.
func (b *bench) unfinished() int {
	b.t.Helper()
	out, err := b.client.ListMultipartUploads(context.WithoutCancel(b.t.Context()),
		&s3.ListMultipartUploadsInput{Bucket: &b.bucket})
	must(b.t, err)
	return len(out.Uploads)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// home creates a home with that many incompressible bytes, in files of all sizes, with symlinks and hard links in
// between.
func home(t testing.TB, bytes int) string {
	t.Helper()
	dir := t.TempDir()
	random := rand.NewChaCha8([32]byte{1})
	for i := 0; bytes > 0; i++ {
		sub := filepath.Join(dir, fmt.Sprint("folder", i%7))
		must(t, os.MkdirAll(sub, 0o755))
		content := make([]byte, min(bytes, 1+i*i*1000%(8<<20)))
		_, _ = random.Read(content) // never fails
		bytes -= len(content)
		path := filepath.Join(sub, fmt.Sprint("file", i))
		must(t, os.WriteFile(path, content, 0o644))
		must(t, os.Chown(path, 1000, 1000))
		must(t, os.Symlink(path, path+".symlink"))
		must(t, os.Link(path, path+".link"))
	}
	must(t, os.Chown(dir, 1000, 1000))
	return dir
}

// listing describes a folder with find and sha256sum, independently of the job's code.
func listing(t testing.TB, dir string) string {
	t.Helper()
	cmd := exec.Command("sh", "-c", `find . -printf '%P|%y|%m|%U:%G|%T@|%n|%l\n' | LC_ALL=C sort; find . -type f -print0 | LC_ALL=C sort -z | xargs -0r sha256sum`)
	cmd.Dir = dir
	out, err := cmd.Output()
	must(t, err)
	return string(out)
}

func requireSame(t testing.TB, want, dir string) {
	t.Helper()
	if got := listing(t, dir); got != want {
		t.Fatalf("the folders differ:\nwant %.2000s\n got %.2000s", want, got)
	}
}
