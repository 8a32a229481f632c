package backend

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/codehub/gateway/coordinator/workspace"
	"github.com/codehub/gateway/storagejob/contract"
)

// JobSpec describes a storage job to start.
type JobSpec struct {
	ID   workspace.ID
	Kind workspace.JobKind
	// OpID is the id of the operation that starts the job; it is part of the job's name.
	OpID string
	// Owner and Term are as in [StartSpec].
	Owner, Term string
	// Env is the job's environment, NAME=value: the address of the archive and how to reach it. It must not contain
	// secrets, because engines show it to every client.
	Env []string
	// Grant is what the job may do with the object store: the JSON of a [contract.Grant]. Before the job starts, the
	// grant is in the file [contract.GrantPath], which only root and the job's own group may read. It MUST NOT be
	// logged, nor be anywhere else on the engine.
	Grant []byte
}

// commands are the arguments for each kind of job.
var commands = map[workspace.JobKind]string{
	workspace.JobArchive: contract.JobArchive,
	workspace.JobRestore: contract.JobRestore,
}

var opIDForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// Validate refuses values that cannot become a container's name or environment. Its errors never repeat the
// environment, whereas an engine's errors might.
func (s JobSpec) Validate() error {
	if err := errors.Join(CheckID(s.ID), checkOwner(s.Owner)); err != nil {
		return err
	}
	if commands[s.Kind] == "" {
		return fmt.Errorf("unknown kind of storage job %q", s.Kind)
	}
	if !opIDForm.MatchString(s.OpID) {
		return fmt.Errorf("operation id %q is not letters and digits", s.OpID)
	}
	for i, entry := range s.Env {
		if name, _, ok := strings.Cut(entry, "="); !ok || name == "" || strings.ContainsRune(entry, 0) {
			return fmt.Errorf("environment of the storage job: entry %d is not NAME=value", i)
		}
	}
	return nil
}

// Name is the name of the job's container. It is the same for the same operation, so that a job starts once, however
// often StartJob is called.
func (s JobSpec) Name() string {
	return fmt.Sprintf("%s-%s-%s", s.ID.ContainerName(), s.Kind, s.OpID)
}

// Command is the argument that tells the program which job to run.
func (s JobSpec) Command() string { return commands[s.Kind] }

// CheckID refuses a string that is not a workspace's id, so that it never becomes part of a name or a filter.
func CheckID(id workspace.ID) error {
	if _, err := workspace.ParseID(string(id)); err != nil {
		return fmt.Errorf("workspace %q: %w", id, err)
	}
	return nil
}

// ownerForm is the form of a label's value. An e-mail address does not match.
var ownerForm = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9_-]{0,61}[A-Za-z0-9])?$`)

// checkOwner refuses a string that is not a user's id. An empty string is fine: an owner may be unknown.
func checkOwner(owner string) error {
	if owner != "" && !ownerForm.MatchString(owner) {
		return fmt.Errorf("the owner's id %q is not letters and digits", owner)
	}
	return nil
}

// JobEnd is how the container of a storage job ended.
type JobEnd struct {
	// Image is the image that it ran.
	Image string
	// ExitCode is one of the codes in package contract, or the code of a signal.
	ExitCode int
	// OutOfMemory means that the kernel killed the job for its use of memory.
	OutOfMemory bool
	// Stdout and Stderr are the end of its output.
	Stdout, Stderr []byte
}

// Signalled reports whether the exit code is that of a program that was killed or asked to end: by a person, because
// its engine stopped, or because its host ran out of memory (SPEC 3).
func Signalled(code int) bool { return code == killed || code == terminated }

// These are the exit codes of SIGKILL and of SIGTERM, and of a container whose end the engine missed because the host
// lost power or because the engine was killed together with the container. A storage job never ends with the last of
// these codes by itself; a workspace's program may.
const (
	killed     = 128 + 9
	terminated = 128 + 15
	unseen     = 255
)

// maxMessage bounds a failed job's message, in bytes.
const maxMessage = 1000

// Outcome returns the meaning of the end: the state, reason, message and size of the [workspace.Job]. A job has
// succeeded only if both its exit code and its result say so.
func (e JobEnd) Outcome() workspace.Job {
	result, found := contract.ParseResult(e.Stdout)
	if e.ExitCode == contract.ExitOK && found && result.OK {
		return workspace.Job{
			State: workspace.JobSucceeded, Size: result.Size, Content: result.Bytes, Files: result.Files,
			SHA256: result.SHA256, Unchanged: result.Unchanged, Fingerprint: result.Fingerprint,
			Verified: result.Verified, Course: courseOf(result),
		}
	}
	disrupted := (Signalled(e.ExitCode) || e.ExitCode == unseen) && !e.OutOfMemory
	job := workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Disrupted: disrupted}
	job.ResultLost = e.ExitCode == contract.ExitOK && !found // its log was rotated, or contains an error of the engine
	switch e.ExitCode {
	case contract.ExitCorrupted:
		job.Reason = workspace.ReasonArchiveCorrupted
	case contract.ExitMissing:
		job.Reason = workspace.ReasonDataLost
	case contract.ExitUnreachable:
		job.Reason = workspace.ReasonUnreachable
	case contract.ExitOccupied:
		job.Reason = workspace.ReasonConflict
	case contract.ExitLocked:
		job.Locked = true
	}
	switch text := string(contract.LastLine(e.Stderr)); {
	case e.OutOfMemory:
		job.Message = "it ran out of memory"
	case found && result.Error != "":
		job.Message = result.Error
	case text != "":
		job.Message = fmt.Sprintf("exit code %d: %s", e.ExitCode, text)
	case e.ExitCode == contract.ExitOK:
		job.Message = "it ended without a result"
	default:
		job.Message = fmt.Sprintf("exit code %d", e.ExitCode)
	}
	if e.ExitCode == contract.ExitDiskFull {
		job.Message = "the disk is full: " + job.Message
	}
	if found && result.Contract != contract.Version {
		// The meaning of the job's code and message is unknown. A job that reports success counts as successful: its
		// archive or home is checked in any case.
		wrong := &contract.VersionError{Image: e.Image, Version: result.Contract}
		job = workspace.Job{State: workspace.JobFailed, Reason: workspace.ReasonActionFailed, Unfit: true,
			Message: wrong.Error() + "; it says: " + job.Message}
	}
	if found {
		job.Course = courseOf(result)
	}
	job.Message, job.Changed = CleanText(job.Message, maxMessage), CleanText(result.Changed, maxMessage)
	return job
}

// courseOf returns when the job began each step, or nil if it does not say. courseOf does not trust the job's times: in
// its result, no step begins before the previous step or after the job's end.
func courseOf(r contract.Result) *workspace.JobCourse {
	if r.Began == 0 || !(r.Seconds >= 0 && seconds(r.Seconds) < maxCourse) {
		return nil
	}
	c := &workspace.JobCourse{Began: time.UnixMilli(r.Began), Took: seconds(r.Seconds)}
	at := time.Duration(0)
	for _, s := range r.Stages[:min(len(r.Stages), contract.MaxStages)] {
		if slices.Contains(contract.Steps, s.Step) {
			at = min(max(at, seconds(s.At)), c.Took)
			c.Stages = append(c.Stages, workspace.JobStage{Step: s.Step, At: at})
		}
	}
	return c
}

// maxCourse is longer than any operation may take.
const maxCourse = 48 * time.Hour

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// ProgressOf returns the newest progress in the output of a running job, as a [contract.ProgressLine], or "". The line
// contains only counters and no times or rates, so it changes whenever the job makes progress, and only then.
func ProgressOf(stdout []byte) string {
	for len(stdout) > 0 {
		line := contract.LastLine(stdout)
		if len(line) == 0 {
			return ""
		}
		stdout = stdout[:bytes.LastIndex(stdout, line)]
		var p contract.ProgressLine
		if json.Unmarshal(line, &p) != nil || p.Event != contract.EventProgress {
			continue
		}
		p.Seconds, p.BytesPerSecond, p.ETA = 0, 0, nil
		text, err := json.Marshal(p)
		if err != nil {
			return ""
		}
		return string(text)
	}
	return ""
}
