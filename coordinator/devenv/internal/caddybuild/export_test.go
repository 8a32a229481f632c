package caddybuild

var BuildReleaseWithLog = buildRelease
