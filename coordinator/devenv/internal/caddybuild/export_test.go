package caddybuild

var BuildForWithLog = buildFor
