// Package contract defines what the storage job and the coordinator must agree on (SPEC 7): the command line of a job,
// its output, its exit codes, and the form of the commit marker. Both sides write and read that marker.
//
// It owns formats and names, each with the only function that reads it. It must import only the standard library, do no
// I/O except for the line of [End], and make no decisions. The coordinator decides what an exit code means for a
// workspace.
package contract

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// The jobs, as the program's first argument.
const (
	JobArchive = "archive"
	JobRestore = "restore"
)

// Where a backend mounts the folders of a job.
const (
	// DataPath is the workspace's home volume.
	DataPath = "/data"
	// ScratchPath is the only other folder that a job may write to.
	ScratchPath = "/tmp"
)

// The environment of a job. The AWS names are those that Amazon's SDK reads.
const (
	// EnvArchiveURL holds an address as [ArchiveURL] writes it.
	EnvArchiveURL = "ARCHIVE_URL"
	// EnvPathStyle is true or false; true addresses http://host/bucket/key.
	EnvPathStyle    = "S3_PATH_STYLE"
	EnvEndpoint     = "AWS_ENDPOINT_URL_S3"
	EnvRegion       = "AWS_REGION"
	EnvAccessKey    = "AWS_ACCESS_KEY_ID"
	EnvSecretKey    = "AWS_SECRET_ACCESS_KEY"
	EnvSessionToken = "AWS_SESSION_TOKEN"
	// EnvNewVolume is true for a restore into a volume that was created for it. If such a volume has files anyway, they
	// may be newer than the archive (SPEC 12.9).
	EnvNewVolume = "CODEHUB_NEW_VOLUME"
	// EnvOperation is the id of the restore operation or, for an archive, of the operation that created the volume. A
	// restore leaves a mark with it, so that a second run knows that the work is done (SPEC 12.12). Without an id it
	// leaves no mark.
	EnvOperation = "CODEHUB_OPERATION"
	// EnvAbout holds an [About] as JSON. It holds no secret.
	EnvAbout = "CODEHUB_ABOUT"
	// EnvGrant is true for a job that finds a [Grant] in its scratch folder. It then uses no other credentials.
	EnvGrant = "CODEHUB_GRANT"
	// EnvVerify is [VerifyFull], which is the default, or [VerifyChecksum].
	EnvVerify = "CODEHUB_VERIFY"
	// EnvFingerprint holds the [Result.Fingerprint] of the state in the current archive. An archive job that finds the
	// same fingerprint makes no archive.
	EnvFingerprint = "CODEHUB_FINGERPRINT"
	// EnvAgeRecipients holds age's public keys, one per line, to which a new archive is encrypted. The keys of a
	// [Grant] take precedence.
	EnvAgeRecipients = "CODEHUB_AGE_RECIPIENTS"
	// EnvAgeIdentityFile is the path of a file with age's secret keys, one per line, with which a restore tries to open
	// an archive. The keys of a [Grant] take precedence.
	EnvAgeIdentityFile = "CODEHUB_AGE_IDENTITY_FILE"
)

// How an archive job makes sure that the store has kept the upload, before the archive counts.
const (
	// VerifyFull reads the archive back and compares its bytes and every entry in it.
	VerifyFull = "full"
	// VerifyChecksum compares the size that the store reports, and the store's own checksum if it keeps one of the
	// whole archive.
	VerifyChecksum = "checksum"
)

// The exit codes of a job.
const (
	ExitOK          = 0
	ExitOther       = 1  // an error without its own code
	ExitUsage       = 2  // the command line or the environment is wrong
	ExitCorrupted   = 10 // the archive is damaged or hostile; a retry does not help
	ExitMissing     = 11 // the archive or its .meta does not exist
	ExitUnreachable = 12 // the object store does not answer, or refuses
	ExitDiskFull    = 13 // the volume's file system has no room
	// The volume's file system refuses the archive's content, or refuses any write. As far as it was read, the archive
	// is intact; a different volume can hold it.
	ExitRefused = 14
	// The volume's content is not the home that the job expects, and the job has not touched it. A restore has found
	// files although [EnvNewVolume] is true. An archive job has found parts of two homes, which an interrupted restore
	// has left.
	ExitOccupied = 15
	// The archive is encrypted, and none of the job's keys opens it. Nothing has changed.
	ExitLocked = 16
	// A signal ended the job. This is the code that a shell reports for a program that SIGTERM ended. The job can be
	// run again, and its end says nothing about the volume or the archive.
	ExitInterrupted = 128 + 15
)

// ErrUsage marks wrong arguments or a wrong environment of a task other than the jobs.
var ErrUsage = errors.New("wrong usage")

// End ends a task other than the jobs. It prints the task's result, which already contains err, as the last line, and
// returns the exit code.
func End(stdout io.Writer, result any, err error) int {
	line, _ := json.Marshal(result) // cannot fail: the result is plain data
	fmt.Fprintf(stdout, "%s\n", line)
	switch {
	case errors.Is(err, ErrUsage):
		return ExitUsage
	case err != nil:
		return ExitOther
	}
	return ExitOK
}

// ArchiveType is the content type of an archive.
const ArchiveType = "application/zstd"

const scheme = "s3://"

// ArchiveURL is the address of an archive: s3://bucket/key.
func ArchiveURL(bucket, key string) string { return scheme + bucket + "/" + key }

// ParseArchiveURL splits an address that [ArchiveURL] made.
func ParseArchiveURL(url string) (bucket, key string, err error) {
	rest, ok := strings.CutPrefix(url, scheme)
	bucket, key, found := strings.Cut(rest, "/")
	if !ok || !found || bucket == "" || key == "" || strings.HasSuffix(key, "/") {
		return "", "", errors.New("the archive's address must look like s3://bucket/path/home.tar.zst")
	}
	return bucket, key, nil
}
