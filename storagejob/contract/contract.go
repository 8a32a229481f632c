// Package contract holds what the storage job and the coordinator must agree on (SPEC 7). That is
// how a job is called, what it prints, and how it exits. The form of the commit marker, which both
// of them write and read, is here too.
//
// It owns formats and names, each with the only function that reads it. It must import nothing
// but the standard library, do no I/O but the line of [End], and decide nothing. The
// coordinator says what an exit code means for a workspace.
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

// Where a backend mounts what a job works on.
const (
	// DataPath is the workspace's home volume.
	DataPath = "/data"
	// ScratchPath is the only other folder that a job may write to.
	ScratchPath = "/tmp"
)

// The environment of a job. The AWS names are the ones that Amazon's SDK reads.
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
	// EnvNewVolume is true for a restore into a volume that was made for it. Files that are
	// there all the same may be newer than the archive (SPEC 12.9).
	EnvNewVolume = "CODEHUB_NEW_VOLUME"
	// EnvOperation is the operation of a restore, or for an archive the one that made the
	// volume. A restore leaves its mark, by which a second run knows that its work is done
	// (SPEC 12.12). Without it there is none.
	EnvOperation = "CODEHUB_OPERATION"
	// EnvAbout holds an [About] as JSON. It holds no secret.
	EnvAbout = "CODEHUB_ABOUT"
	// EnvGrant is true for a job that finds a [Grant] in its scratch folder. Then it takes no
	// credentials from anywhere else.
	EnvGrant = "CODEHUB_GRANT"
	// EnvVerify is [VerifyFull], which is the default, or [VerifyChecksum].
	EnvVerify = "CODEHUB_VERIFY"
	// EnvFingerprint holds the [Result.Fingerprint] of the state that the current archive
	// holds. An archive job that finds the same one makes no archive.
	EnvFingerprint = "CODEHUB_FINGERPRINT"
	// EnvAgeRecipients holds age's public keys, one a line, to which a new archive is
	// encrypted. Those of a [Grant] go before it.
	EnvAgeRecipients = "CODEHUB_AGE_RECIPIENTS"
	// EnvAgeIdentityFile is the path of a file with age's secret keys, one a line, with which
	// a restore tries to open an archive. Those of a [Grant] go before it.
	EnvAgeIdentityFile = "CODEHUB_AGE_IDENTITY_FILE"
)

// How an archive job makes sure that the store has kept what was uploaded, before the
// archive counts.
const (
	// VerifyFull reads the archive back and compares its bytes and every entry in it.
	VerifyFull = "full"
	// VerifyChecksum compares the size that the store reports, and the store's own checksum
	// where it keeps one of the whole archive.
	VerifyChecksum = "checksum"
)

// The exit codes of a job.
const (
	ExitOK          = 0
	ExitOther       = 1  // an error without a code of its own
	ExitUsage       = 2  // the command line or the environment is wrong
	ExitCorrupted   = 10 // the archive is damaged or hostile; another try does not help
	ExitMissing     = 11 // the archive or its .meta does not exist
	ExitUnreachable = 12 // the object store does not answer, or refuses
	ExitDiskFull    = 13 // the volume's file system has no room
	// The volume's file system refuses what the archive holds, or to be written at all.
	// The archive is intact as far as it was read; another volume takes it.
	ExitRefused = 14
	// The volume holds something else than a home as the job expects it, and was not touched.
	// For a restore these are files although [EnvNewVolume] says that there are none. For an
	// archive it is what an interrupted restore has left of two homes.
	ExitOccupied = 15
	// The archive is encrypted, and none of the job's keys opens it. Nothing was changed.
	ExitLocked = 16
	// A signal has ended the job: the code that a shell gives a program that SIGTERM ends. It
	// can be run again, and its end says nothing about what it works on.
	ExitInterrupted = 128 + 15
)

// ErrUsage marks what is wrong with the arguments or the environment of the tasks besides
// the jobs.
var ErrUsage = errors.New("wrong usage")

// End ends one of the tasks besides the jobs. It prints the task's result, in which err is told
// already, as the last line, and returns the exit code.
func End(stdout io.Writer, result any, err error) int {
	line, _ := json.Marshal(result) // cannot fail: it is plain data
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
