package metrics

// id is the index of a metric in the table.
type id int

const (
	buildInfo id = iota

	gatewayRequests
	gatewayRefusals
	gatewayHold
	gatewayHeld
	gatewayHeldLimit
	gatewayWebSockets
	activitySignals
	wakes
	wakeDuration
	wakeStageDuration
	wakesInProgress
	eventStreams
	eventStreamsSlow
	routes
	routesConfirmed

	workspaces
	workspacesInOperation
	workspacesWaiting
	workspacesInError
	workspacesDozing
	dozes
	desiredStateChanges
	wrongSleeps
	operationDuration
	operationFailures

	shardsTotal
	shardsLed
	leaderEpoch
	leaderTerms
	internalFailures
	workspacesSetAside
	reconcileDuration
	sensorErrors
	sensorAnswered
	storageJobs
	storageJobsLimit
	actuatorCalls
	actuatorWait
	actuatorCallDuration
	actuatorCallErrors
	cycleDuration
	cycleErrors
	cycleDone

	archives
	archivesDamaged
	archivesUnverified
	archiveOldest
	archivedBytes
	scrubArchives
	scrubBytes
	gcArchives
	gcFound
	gcUploads
	s3Requests
	s3RequestDuration
	s3Bytes

	diskSize
	diskFree
	diskMark
	databaseConnections
	databaseConnectionsLimit
	databaseAcquires
	databaseWaits
	databaseWait
	databaseGivenUp
	redisConnections
	redisConnectionsLimit
	redisGivenUp

	count
)
