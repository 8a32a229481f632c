// Command storagejob moves a workspace's home between its volume and an archive in an S3 store, in its own container
// (SPEC 7). "storagejob archive" makes the archive, and "storagejob restore" makes the volume equal to it. It can be
// killed at any instruction and run again.
//
// "storagejob egress" creates the rules about what workspaces can reach: see package egress. "storagejob usage" counts
// the content of homes: see package usage. "storagejob hold" keeps an image on a node: see hold.go.
//
// It owns the content of the volume while it runs, and the two objects at the address that it receives. It must not
// import the coordinator, build paths in the bucket, or reach anything except the object store. Package contract
// defines what both programs must agree on.
package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unicode"

	"github.com/codehub/gateway/storagejob/contract"
	"github.com/codehub/gateway/storagejob/internal/egress"
	"github.com/codehub/gateway/storagejob/usage"
)

// help is printed for --help. Package contract defines the environment and the exit codes.
const help = `Usage: storagejob archive|restore [flags]
       storagejob egress apply|status|remove
       storagejob egress probe ADDRESS...
       storagejob usage FOLDER...
       storagejob install FOLDER
       storagejob hold

archive  packs the volume into a tar.zst, uploads it, reads it back, and commits it with
         a .meta (sha256:{hex}). Does nothing if the archive exists.
restore  downloads the archive, verifies it, and makes the volume equal to it.
         It can be run again after it was killed at any point.
egress   makes, checks or removes the firewall rules in CODEHUB_EGRESS_RULES (JSON), in
         this network namespace; probe prints which addresses can be connected to.
usage    prints how full the disk at /disk is and what the folders hold, after at most
         CODEHUB_USAGE_SECONDS.
install  copies this program into the folder, and hold waits for a signal: the container of
         any image in which the copy waits keeps the image on its node.

Environment of archive and restore:
  ARCHIVE_URL            s3://bucket/path/home.tar.zst
  AWS_ACCESS_KEY_ID      credentials of the store
  AWS_SECRET_ACCESS_KEY
  AWS_SESSION_TOKEN      for temporary credentials
  AWS_REGION             region of the bucket
  AWS_ENDPOINT_URL_S3    address of a store that is not Amazon's
  S3_PATH_STYLE          true for http://host/bucket/key (default false)
  CODEHUB_NEW_VOLUME     true: restore into an empty volume only (default false)
  CODEHUB_OPERATION      id of the restore, or of the operation that made the volume: a
                         restore that has ended is not done a second time
  CODEHUB_GRANT          true: signed requests in grant.json in the scratch folder take
                         the place of the credentials (default false)
  CODEHUB_VERIFY         full (default): before an upload counts, read it back and
                         compare every entry; checksum: compare what the store reports
  CODEHUB_FINGERPRINT    what a restore has printed: archive does nothing while the
                         volume still has it, under the same boot and mount
  CODEHUB_ABOUT          JSON with what every line of the output says besides: workspace,
                         operation, op_id, uuid, traceID
  CODEHUB_AGE_RECIPIENTS age's public keys, one a line, to encrypt the archive to
  CODEHUB_AGE_IDENTITY_FILE  a file with age's secret keys, to restore encrypted ones

Output: JSON lines, {"event":"progress",...} at every step and once a second; the last
line is {"event":"result","ok":true|false,...}.

Exit codes: 0 done, 2 usage, 10 archive corrupted, 11 archive missing,
12 store unreachable, 13 disk full, 14 refused by the volume's file system,
15 the volume is not empty, or holds an unfinished restore, 16 no key opens the
archive, 143 ended by a signal, 1 any other error.

Flags:
`

// memoryLimit, in bytes, makes the garbage collector work harder before the job reaches its maximum of 128 MiB (SPEC
// 7). The environment variable GOMEMLIMIT overrides it.
const memoryLimit = 96 << 20

// defaultKeepFree is the share of the volume's file system that a restore leaves free.
// Docker's volumes share their file system with everything else on the host.
const defaultKeepFree = 0.01

// errInterrupted is the cause of a context that was ended by a signal.
var errInterrupted = errors.New("interrupted by a signal")

// settings come from the command line and the environment. parse has validated them.
type settings struct {
	job       string        // contract.JobArchive or contract.JobRestore
	volume    string        // the folder that holds the home
	url       string        // the archive's address, as contract.ArchiveURL writes it
	pathStyle bool          // see contract.EnvPathStyle
	newVolume bool          // see contract.EnvNewVolume
	operation string        // see contract.EnvOperation
	granted   bool          // see contract.EnvGrant
	scratch   string        // the folder for everything besides the volume
	verify    string        // see contract.EnvVerify
	interval  time.Duration // between two progress lines
	keepFree  float64       // see tree.Limits.KeepFree

	fingerprint string         // see contract.EnvFingerprint
	origin      contract.About // see contract.EnvAbout
	keys        keys

	// step, if set, is called with the name of every step before it starts. Its error stops the job there. Tests use
	// it.
	step func(what string) error
}

// main ends a job gracefully on SIGTERM or SIGINT: the job aborts its upload or discards its staging folder, prints a
// result and exits.
func main() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-signals
		cancel(errInterrupted)
	}()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr, nil))
}

// run is main without the process, so that tests can call it. It prints the result as the last line of stdout, except
// after wrong usage, and returns the exit code. If the context was interrupted, that is the cause of every error. step
// is [settings.step].
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer,
	step func(string) error) int {
	if len(args) > 0 && args[0] == contract.Egress {
		return egress.Run(ctx, args[1:], getenv, stdout)
	}
	if len(args) > 0 && args[0] == contract.Usage {
		return usage.Run(ctx, args[1:], getenv, stdout)
	}
	if len(args) > 0 && args[0] == taskInstall {
		return install(args[1:], stderr)
	}
	if len(args) > 0 && args[0] == taskHold {
		return hold(ctx)
	}
	s, err := parse(args, getenv, stderr)
	s.step = step
	if errors.Is(err, flag.ErrHelp) {
		return contract.ExitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "storagejob: %v\nTry: storagejob --help\n", err)
		return contract.ExitUsage
	}
	rep := newReporter(stdout, s.origin, s.interval)
	res, err := work(ctx, s, rep)
	if err == nil {
		err = s.about("report the result")
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	rep.finish(res, err)
	return exitCode(err)
}

// about announces a step, so that a test can stop the job there.
func (s settings) about(what string) error {
	if s.step == nil {
		return nil
	}
	return s.step(what)
}

// work runs the job that s names, once. It does not retry the whole job: the coordinator starts another one (SPEC 1,
// contract 10).
func work(ctx context.Context, s settings, rep *reporter) (contract.Result, error) {
	at, err := openArchive(ctx, &s)
	if err != nil {
		return contract.Result{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	defer at.Close()
	if s.job == contract.JobArchive {
		return archive(ctx, s, at, rep)
	}
	return restore(ctx, s, at, rep)
}

// parse reads the command line and the environment. It returns [errUsage], or [flag.ErrHelp] after printing the help.
// It does not look at the volume or the store.
func parse(args []string, getenv func(string) string, stderr io.Writer) (settings, error) {
	s := settings{
		url: getenv(contract.EnvArchiveURL), operation: getenv(contract.EnvOperation),
		fingerprint: getenv(contract.EnvFingerprint),
		verify:      cmp.Or(getenv(contract.EnvVerify), contract.VerifyFull),
		keys: keys{recipientsText: getenv(contract.EnvAgeRecipients),
			identityFile: getenv(contract.EnvAgeIdentityFile)},
	}
	flags := flag.NewFlagSet("storagejob", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, help)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.volume, "volume", contract.DataPath, "`folder` that holds the home")
	flags.StringVar(&s.scratch, "scratch", contract.ScratchPath,
		"`folder` for parts of a large archive, each up to 4 GiB, and for grant.json")
	flags.DurationVar(&s.interval, "progress", time.Second, "time between progress lines")
	flags.Float64Var(&s.keepFree, "keep-free", defaultKeepFree,
		"`share` of the volume's file system, at most 1 GiB, that a restore leaves free")
	if len(args) > 0 && (args[0] == contract.JobArchive || args[0] == contract.JobRestore) {
		s.job, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	switch {
	case s.job == "" || flags.NArg() > 0:
		return settings{}, fmt.Errorf("%w: the first argument must be archive or restore, and only flags may follow",
			errUsage)
	case s.url == "":
		return settings{}, fmt.Errorf("%w: %s is not set", errUsage, contract.EnvArchiveURL)
	case s.verify != contract.VerifyFull && s.verify != contract.VerifyChecksum:
		return settings{}, fmt.Errorf("%w: %s is neither %s nor %s: %q", errUsage, contract.EnvVerify,
			contract.VerifyFull, contract.VerifyChecksum, s.verify)
	case len(s.operation) > 64 ||
		strings.ContainsFunc(s.operation,
			func(r rune) bool { return r != '-' && r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) }):
		return settings{}, fmt.Errorf("%w: %s is not the id of an operation: %q", errUsage, contract.EnvOperation,
			s.operation)
	case s.interval <= 0:
		return settings{}, fmt.Errorf("%w: --progress must be positive", errUsage)
	case !(s.keepFree >= 0 && s.keepFree < 1): // also refuses NaN
		return settings{}, fmt.Errorf("%w: --keep-free must be at least 0 and less than 1", errUsage)
	}
	if text := getenv(contract.EnvAbout); text != "" {
		if err := json.Unmarshal([]byte(text), &s.origin); err != nil {
			return settings{}, fmt.Errorf("%w: %s: %w", errUsage, contract.EnvAbout, err)
		}
	}
	for name, value := range map[string]*bool{contract.EnvPathStyle: &s.pathStyle, contract.EnvNewVolume: &s.newVolume,
		contract.EnvGrant: &s.granted} {
		if text := getenv(name); text != "" {
			var err error
			if *value, err = strconv.ParseBool(text); err != nil {
				return settings{}, fmt.Errorf("%w: %s is neither true nor false: %q", errUsage, name, text)
			}
		}
	}
	return s, nil
}
