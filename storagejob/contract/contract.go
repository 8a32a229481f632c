// Package contract holds what the storage job and the coordinator must agree on:
// how a job is called, what it prints, how it exits, and the form of the commit
// marker that both of them write and read (SPEC 7).
//
// It owns formats and names, each with the only function that reads it. It must
// import nothing but the standard library, do no I/O of its own, and decide
// nothing: what an exit code means for a workspace is the coordinator's to say.
package contract

import (
	"errors"
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
	// EnvNewVolume is true for a restore into a volume that was made for it: files that
	// are there all the same may be newer than the archive (SPEC 12.9).
	EnvNewVolume = "CODEHUB_NEW_VOLUME"
)

// The exit codes of a job.
const (
	ExitOK          = 0
	ExitOther       = 1  // an error without a code of its own, or a signal
	ExitUsage       = 2  // the command line or the environment is wrong
	ExitCorrupted   = 10 // the archive is damaged or hostile; another try does not help
	ExitMissing     = 11 // the archive or its .meta does not exist
	ExitUnreachable = 12 // the object store does not answer, or refuses
	ExitDiskFull    = 13 // the volume's file system has no room
	// The volume's file system refuses what the archive holds, or to be written at all.
	// The archive is intact as far as it was read; another volume takes it.
	ExitRefused = 14
	// The volume holds files, and [EnvNewVolume] says that it must not. It was not touched.
	ExitOccupied = 15
)

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
