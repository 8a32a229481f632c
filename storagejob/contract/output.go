package contract

import (
	"bytes"
	"encoding/json"
)

// A job prints one JSON object per line: progress while it works, and the result as the last line. Unknown fields are
// ignored, so that a coordinator understands jobs of other releases.
const (
	EventProgress = "progress"
	EventResult   = "result"
)

// MaxStages bounds [Result.Stages].
const MaxStages = 16

// The steps that progress lines name.
const (
	StepCompare = "compare" // checking whether the volume has changed since it was archived
	StepArchive = "archive" // reading the volume and uploading
	StepUpload  = "upload"  // sending the rest of the upload
	StepVerify  = "verify"  // reading the upload back, before it counts
	StepCommit  = "commit"  // making the upload count
	StepUnpack  = "unpack"  // downloading into the staging folder
	StepSwap    = "swap"    // making the volume equal to the staging folder
)

// Steps lists all of them.
var Steps = []string{StepCompare, StepArchive, StepUpload, StepVerify, StepCommit, StepUnpack, StepSwap}

// About says for whom and why a job runs. The job receives it in [EnvAbout], repeats it in every line of its output,
// and uses it for nothing else. The keys are those of the coordinator's own log.
type About struct {
	Workspace string `json:"workspace,omitempty"`
	Operation string `json:"operation,omitempty"`
	OpID      string `json:"op_id,omitempty"`
	// Request and Trace identify the request for which the operation runs, and its trace; both may be empty.
	Request string `json:"uuid,omitempty"`
	Trace   string `json:"traceID,omitempty"`
}

// Stage is a step that a job has taken.
type Stage struct {
	Step string `json:"step"`
	// At is when the step began, in seconds since the start of the job. It ended when the next step began.
	At float64 `json:"at"`
}

// ProgressLine is a line of output while the job works.
type ProgressLine struct {
	About
	Event string `json:"event"` // EventProgress
	Step  string `json:"step"`
	// Bytes and Files count the data read from, or written to, the volume.
	Bytes   int64   `json:"bytes"`
	Files   int64   `json:"files"`
	Seconds float64 `json:"seconds"`
	// BytesPerSecond is the mean since the start of the job.
	BytesPerSecond int64 `json:"bytes_per_second"`
	// Transferred is how many of the archive's Total bytes have been transferred in this step, and ETA is the number of
	// seconds until the end of the step. Total and ETA are absent while unknown: an archive has no size before it is
	// finished.
	Transferred int64    `json:"transferred"`
	Total       int64    `json:"total,omitempty"`
	ETA         *float64 `json:"eta,omitempty"`
}

// Result is the last line of output.
type Result struct {
	About
	Event string `json:"event"` // EventResult
	OK    bool   `json:"ok"`
	// Contract is the job's [Version]. Jobs of earlier releases omit it.
	Contract int `json:"contract,omitempty"`
	// Size, in bytes, and SHA256, in hexadecimal, describe the archive.
	Size   int64  `json:"size"`
	SHA256 string `json:"sha256"`
	// Bytes and Files count the volume's content. Both are 0 if Done says that an earlier run has already done the
	// work.
	Bytes int64 `json:"bytes"`
	Files int64 `json:"files"`
	// Skipped counts the sockets, fifos and devices that were not archived, or the attributes that the volume's file
	// system does not support.
	Skipped int64 `json:"skipped"`
	// Fingerprint identifies the state of the volume, under one boot of the kernel and one mount of the file system
	// (SPEC 12.15): the next archive job that finds the same fingerprint needs no new archive. It is empty where it
	// would prove nothing. Unchanged reports that this job has found the fingerprint that it was given, and has made no
	// archive.
	Fingerprint string `json:"fingerprint,omitempty"`
	Unchanged   bool   `json:"unchanged,omitempty"`
	// Verified reports that this archive job has read the whole archive back from the store and found the volume's
	// content in it. Jobs of earlier releases omit it.
	Verified bool    `json:"verified,omitempty"`
	Done     bool    `json:"done_before"`
	Seconds  float64 `json:"seconds"`
	// Began is when the job started, by its own clock, in milliseconds since 1970. Stages are the steps that it has
	// taken, at most [MaxStages]. Jobs of earlier releases omit both.
	Began  int64   `json:"began,omitempty"`
	Stages []Stage `json:"stages,omitempty"`
	// Changed is the file or folder that changed while the volume was archived, which made the job fail. Jobs of
	// earlier releases omit it.
	Changed string `json:"changed,omitempty"`
	// Error says what went wrong; it is empty if OK.
	Error string `json:"error"`
}

// LastLine returns the last line of output that is not blank, without surrounding white space.
func LastLine(output []byte) []byte {
	output = bytes.TrimSpace(output)
	return bytes.TrimSpace(output[bytes.LastIndexByte(output, '\n')+1:])
}

// ParseResult reads the result from the end of a job's output. It reports false if the last line is not a result: the
// job was killed, or is not a storage job.
func ParseResult(output []byte) (Result, bool) {
	var r Result
	if err := json.Unmarshal(LastLine(output), &r); err != nil || r.Event != EventResult {
		return Result{}, false
	}
	return r, true
}
