package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/codehub/gateway/storagejob/contract"
)

const (
	// maxRSS is the job's memory limit for homes of any size (SPEC 7).
	maxRSS = 128 << 20
	// archiveRounds is how often everything is measured. The environment variable BENCH_ARCHIVE_ROUNDS overrides it,
	// and BENCH_ARCHIVE_TREES selects trees, separated by commas.
	archiveRounds = 5
)

// BenchmarkArchive compares the job, which runs as its own process, with a shell that does the same work on the same
// folder, disk and object store. `make bench-archive` runs it.
//
// The runners alternate, and each measurement ends when the data is on disk: the measured time includes flushing the
// file system of the volume or the store. No runner flushes what another has written, because the file systems belong
// to the benchmark. Every restore gets a new file system, because ext4 creates files slowly for minutes after many were
// deleted. The benchmark fails if the job exceeds its memory limit.
func BenchmarkArchive(b *testing.B) {
	rounds := archiveRounds
	if text := os.Getenv("BENCH_ARCHIVE_ROUNDS"); text != "" {
		var err error
		rounds, err = strconv.Atoi(text)
		must(b, err)
	}
	job := filepath.Join(b.TempDir(), "storagejob")
	volumes := newDisk(b, 6)
	// The store's objects and the trees are on this disk.
	b.Setenv("TMPDIR", newDisk(b, 8).empty(b))
	r := &race{bench: newBench(b), job: job, volumes: volumes, times: map[string][]float64{},
		cpu: map[string][]float64{}}
	build := exec.Command("go", "build", "-o", r.job, ".")
	build.Stderr = os.Stderr
	must(b, build.Run())
	for _, tree := range []struct {
		name string
		make func(testing.TB) string
		// file says that writing the archive to a file is also measured: rclone is slow with input of unknown size.
		file bool
	}{
		{"modules", modules, false}, {"source", source, false}, {"blob", blob, true},
	} {
		if only := os.Getenv("BENCH_ARCHIVE_TREES"); only != "" &&
			!slices.Contains(strings.Split(only, ","), tree.name) {
			continue
		}
		from := tree.make(b)
		for i := range rounds {
			r.round(tree.name, from, i, tree.file)
		}
		r.unchanged(tree.name, from, rounds)
		r.report(tree.name)
	}
	if len(r.times) == 0 {
		b.Fatal("BENCH_ARCHIVE_TREES names no tree")
	}
	fmt.Printf("figure job_peak_rss_mib %.1f MiB\n", float64(r.peak)/(1<<20))
	if r.peak > maxRSS {
		b.Errorf("the job took %d MiB", r.peak>>20)
	}
	b.ReportMetric(0, "ns/op")
}

// race measures the job and its peers.
type race struct {
	*bench
	job     string               // the program
	volumes *disk                // restore target
	peak    int64                // the most memory, in bytes, that the job took
	times   map[string][]float64 // in seconds, by direction, tree and runner, or by step
	cpu     map[string][]float64 // in seconds of the programs alone, by the same keys
}

// round runs every runner once in both directions, in a changing order.
func (r *race) round(tree, from string, round int, file bool) {
	want := ""
	if round == 0 {
		want = listing(r.t, from)
	}
	runners := []string{"job", "pipe", "shell"}
	for i := range runners {
		runner := runners[(i+round)%len(runners)]
		r.remove(r.key)
		r.remove(meta)
		r.measure("archive_"+tree, runner, from, os.TempDir())
		disk := r.volumes.empty(r.t)
		to, scratch := filepath.Join(disk, "volume"), filepath.Join(disk, "scratch")
		must(r.t, os.Mkdir(to, 0o755))
		must(r.t, os.Mkdir(scratch, 0o755))
		r.measure("restore_"+tree, runner, to, scratch)
		if runner == "job" && round == 0 { // the peers lose the nanoseconds
			requireSame(r.t, want, to)
		}
	}
	if file {
		r.measure("archive_"+tree, "file", from, os.TempDir())
	}
}

// unchanged measures how long the job takes to notice that nothing has changed.
func (r *race) unchanged(tree, from string, rounds int) {
	sum, err := fingerprintOf(r.t.Context(), from, "")
	must(r.t, err)
	if sum == "" {
		r.t.Fatal("the tree has no fingerprint")
	}
	// A changed tree would be packed.
	r.remove(r.key)
	r.remove(meta)
	for range rounds {
		began := time.Now()
		_, stages := r.runJob("archive", from, contract.EnvFingerprint+"="+sum)
		r.times["unchanged_"+tree] = append(r.times["unchanged_"+tree], time.Since(began).Seconds())
		if _, packed := stages[contract.StepArchive]; packed {
			r.t.Fatal("an unchanged tree was packed")
		}
	}
}

// measure runs one runner once.
func (r *race) measure(what, runner, volume, scratch string) {
	direction, _, _ := strings.Cut(what, "_")
	syscall.Sync()
	began := time.Now()
	var stages map[string]float64
	var ended *os.ProcessState
	if runner == "job" {
		ended, stages = r.runJob(direction, volume)
	} else {
		ended = r.sh(peers[direction+" "+runner], volume, scratch)
	}
	r.sh(`sync -f "$VOLUME"`, volume, scratch) // the store is on the same disk
	r.times[what+" "+runner] = append(r.times[what+" "+runner], time.Since(began).Seconds())
	r.cpu[what+" "+runner] = append(r.cpu[what+" "+runner], (ended.UserTime() + ended.SystemTime()).Seconds())
	for stage, took := range stages {
		r.times[what+"_"+stage] = append(r.times[what+"_"+stage], took)
	}
}

// runJob runs the job and also returns how long each of its steps took, in seconds.
func (r *race) runJob(direction, volume string, env ...string) (*os.ProcessState, map[string]float64) {
	cmd := exec.Command(r.job, direction, "--volume", volume)
	cmd.Env, cmd.Stderr = slices.Concat(r.env, env), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", direction, err, out)
	}
	r.peak = max(r.peak, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss<<10)
	stages := map[string]float64{}
	step, since := "start", 0.0
	for line := range strings.Lines(string(out)) {
		var p contract.ProgressLine // the result uses the same field for its time
		must(r.t, json.Unmarshal([]byte(line), &p))
		if p.Step == step {
			continue
		}
		stages[step] += p.Seconds - since
		step, since = p.Step, p.Seconds
	}
	return cmd.ProcessState, stages
}

// sh runs a script with the volume, a folder for temporary files, and the store.
func (r *race) sh(script, volume, scratch string) *os.ProcessState {
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Env = []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "VOLUME=" + volume, "SCRATCH=" + scratch,
		"OBJECT=store:" + r.bucket + "/" + r.key,
		"RCLONE_CONFIG=/dev/null", "RCLONE_LOG_LEVEL=ERROR", "RCLONE_CONFIG_STORE_TYPE=s3",
		"RCLONE_CONFIG_STORE_PROVIDER=Other",
		"RCLONE_CONFIG_STORE_ENDPOINT=" + r.store.Endpoint, "RCLONE_CONFIG_STORE_REGION=" + r.store.Region,
		"RCLONE_CONFIG_STORE_ACCESS_KEY_ID=" + r.store.AccessKey,
		"RCLONE_CONFIG_STORE_SECRET_ACCESS_KEY=" + r.store.SecretKey,
		"RCLONE_CONFIG_STORE_FORCE_PATH_STYLE=true", "RCLONE_S3_NO_CHECK_BUCKET=true",
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		r.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return cmd.ProcessState
}

// peers are the programs with which the job is compared: a pipe, which verifies nothing, and a script that uses
// temporary files.
var peers = map[string]string{
	"archive pipe": `tar -C "$VOLUME" -cf - . | zstd -q -3 -T0 | rclone rcat "$OBJECT"`,
	"restore pipe": `rclone cat "$OBJECT" | zstd -q -d | tar -C "$VOLUME" -xpf -`,
	"archive file": `tar -C "$VOLUME" -cf - . | zstd -q -3 -T0 >"$SCRATCH/home.tar.zst"`,
	"archive shell": `cd "$SCRATCH"
		tar -C "$VOLUME" -cf - . | zstd -q -3 -T0 >home.tar.zst
		sha256sum home.tar.zst >home.tar.zst.meta
		rclone copyto home.tar.zst "$OBJECT"
		rclone copyto home.tar.zst.meta "$OBJECT.meta"`,
	"restore shell": `cd "$SCRATCH"
		rclone copyto "$OBJECT.meta" home.tar.zst.meta
		rclone copyto "$OBJECT" home.tar.zst
		sha256sum --quiet -c home.tar.zst.meta
		mkdir staging
		zstd -q -d -c home.tar.zst | tar -C staging -xpf -
		rsync -a --delete staging/ "$VOLUME/"`,
}

// report prints a tree's figures: the peers' time and processor time relative to the job's, the time of each step, and
// the time of an archive relative to noticing that nothing has changed.
func (r *race) report(tree string) {
	for _, direction := range []string{"archive", "restore"} {
		what := direction + "_" + tree
		ours := median(r.times[what+" job"])
		for _, peer := range []struct{ runner, figure string }{{"pipe", "ratio"}, {"shell", "shell_ratio"},
			{"file", "file_ratio"}} {
			if took := r.times[what+" "+peer.runner]; len(took) > 0 {
				fmt.Printf("figure %s_%s_%s %.2f ratio\n", direction, peer.figure, tree, median(took)/ours)
				fmt.Printf("figure %s_%s_%s_s %.2f s\n", direction, peer.runner, tree, median(took))
				fmt.Printf("figure %s_cpu_%s_%s %.2f ratio\n", direction, peer.figure, tree,
					median(r.cpu[what+" "+peer.runner])/median(r.cpu[what+" job"]))
			}
		}
		fmt.Printf("figure %s_job_%s_s %.2f s\n", direction, tree, ours)
		if direction == "archive" {
			fmt.Printf("figure unchanged_ratio_%s %.2f ratio\n", tree, ours/median(r.times["unchanged_"+tree]))
		}
		for _, name := range slices.Sorted(maps.Keys(r.times)) {
			if stage, ok := strings.CutPrefix(name, what+"_"); ok {
				fmt.Printf("figure %s_stage_%s_%s_s %.2f s\n", direction, tree, stage, median(r.times[name]))
				if stage == contract.StepVerify { // only archives that are read back have this step
					fmt.Printf("figure verify_share_%s %.2f ratio\n", tree, median(r.times[name])/ours)
				}
			}
		}
	}
}

func median(values []float64) float64 {
	values = slices.Sorted(slices.Values(values))
	return values[len(values)/2]
}

// disk is a file with its own file system.
type disk struct{ image, dir, device string }

// newDisk creates a disk with a size in GiB, without a file system.
func newDisk(t testing.TB, gib int) *disk {
	t.Helper()
	d := &disk{image: filepath.Join(t.TempDir(), "image"), dir: t.TempDir()}
	t.Cleanup(func() { d.umount(t) })
	run := exec.Command("fallocate", "-l", fmt.Sprint(gib<<30), d.image)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("making a disk: %v\n%s", err, out)
	}
	return d
}

// empty mounts the disk with a new file system and returns the folder.
func (d *disk) empty(t testing.TB) string {
	t.Helper()
	d.umount(t)
	out, err := exec.Command("losetup", "--direct-io=on", "--show", "-f", d.image).Output()
	if err != nil {
		t.Fatalf("attaching a disk, for which this needs root and loop devices: %v", err)
	}
	d.device = strings.TrimSpace(string(out))
	for _, args := range [][]string{
		{"mkfs.ext4", "-q", "-F", "-m", "0", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0", d.device},
		{"mount", d.device, d.dir},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", args, err, out)
		}
	}
	return d.dir
}

func (d *disk) umount(t testing.TB) {
	t.Helper()
	if d.device == "" {
		return
	}
	must(t, unix.Unmount(d.dir, unix.MNT_DETACH))
	must(t, exec.Command("losetup", "-d", d.device).Run())
	d.device = ""
}
