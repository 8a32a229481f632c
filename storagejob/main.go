// Command storagejob moves a workspace's home between its volume and an archive
// in an S3 store, in a container of its own: "storagejob archive" makes the
// archive, "storagejob restore" makes the volume equal to it (SPEC 7). It knows
// nothing but the address it is given, and can be killed at any instruction and
// run again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/codehub/gateway/storagejob/object"
)

const help = `Usage: storagejob archive|restore [flags]

archive  packs the volume into a tar.zst, uploads it, and commits it with a .meta
         (sha256:{hex}). Does nothing when the archive is there already.
restore  downloads the archive, verifies it, and makes the volume equal to it.
         Killed at any point, it is simply run again.

Environment:
  ARCHIVE_URL            s3://bucket/path/home.tar.zst
  AWS_ACCESS_KEY_ID      credentials of the store
  AWS_SECRET_ACCESS_KEY
  AWS_SESSION_TOKEN      for temporary credentials
  AWS_REGION             region of the bucket
  AWS_ENDPOINT_URL_S3    address of a store that is not Amazon's
  S3_PATH_STYLE          true for http://host/bucket/key (default false)

Output: a JSON line at least at every step and at most once a second while it works,
{"event":"progress",...}; the last line is {"event":"result","ok":true|false,...}.

Exit codes: 0 done, 2 usage, 10 archive corrupted, 11 archive missing,
12 store unreachable, 13 disk full, 1 anything else.

Flags:
`

// memoryLimit makes the garbage collector work harder before the job's 128 MiB are
// reached. GOMEMLIMIT overrides it.
const memoryLimit = 96 << 20

// errInterrupted is the cause of a context that a signal ended.
var errInterrupted = errors.New("interrupted by a signal")

// settings are what the command line and the environment say.
type settings struct {
	job       string
	volume    string
	url       string
	pathStyle bool
	interval  time.Duration
}

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
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// run is the program without its process.
func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	s, err := parse(args, getenv, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintf(stderr, "storagejob: %v\nTry: storagejob --help\n", err)
		return exitUsage
	}
	rep := newReporter(stdout, s.interval)
	res, err := work(ctx, s, rep)
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", context.Cause(ctx), err)
	}
	rep.finish(res, err)
	return exitCode(err)
}

func work(ctx context.Context, s settings, rep *reporter) (result, error) {
	place, err := object.Open(ctx, s.url, s.pathStyle)
	if err != nil {
		return result{}, fmt.Errorf("%w: %w", errUsage, err)
	}
	if s.job == "archive" {
		return archive(ctx, s, place, rep)
	}
	return restore(ctx, s, place, rep)
}

// parse reads the command line and the environment.
func parse(args []string, getenv func(string) string, stderr io.Writer) (settings, error) {
	s := settings{url: getenv("ARCHIVE_URL")}
	flags := flag.NewFlagSet("storagejob", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, help)
		flags.PrintDefaults()
	}
	flags.StringVar(&s.volume, "volume", "/data", "`folder` that holds the home")
	flags.DurationVar(&s.interval, "progress", time.Second, "time between progress lines")
	if len(args) > 0 && (args[0] == "archive" || args[0] == "restore") {
		s.job, args = args[0], args[1:]
	}
	if err := flags.Parse(args); err != nil {
		return settings{}, err
	}
	switch {
	case s.job == "" || flags.NArg() > 0:
		return settings{}, fmt.Errorf("%w: the first argument is archive or restore, and nothing but flags follows", errUsage)
	case s.url == "":
		return settings{}, fmt.Errorf("%w: ARCHIVE_URL is not set", errUsage)
	case s.interval <= 0:
		return settings{}, fmt.Errorf("%w: --progress must be positive", errUsage)
	}
	if text := getenv("S3_PATH_STYLE"); text != "" {
		var err error
		if s.pathStyle, err = strconv.ParseBool(text); err != nil {
			return settings{}, fmt.Errorf("%w: S3_PATH_STYLE is neither true nor false: %q", errUsage, text)
		}
	}
	return s, nil
}
