// Package processtest runs real coordinator processes on real servers and breaks them. It kills or stops processes
// between any two of their side effects, or at random. It kills storage jobs before any of their steps, and makes
// object stores fail.
//
// The test binary is also the program of those processes (see process_test.go). The product's code contains nothing
// that marks the places at which processes are killed. Every side effect passes through one of three edges, which the
// processes wrap: the database, the container backend and the object store (see points_test.go). testdata/points.txt
// lists the points with Docker, testdata/points-kubernetes.txt those with Kubernetes. After a change of the side
// effects, generate them anew:
//
//	make test ARGS='-run TestPointsAreComplete ./coordinator/processtest -args -update'
//	make test-k8s K8S='-run TestPointsAreComplete ./coordinator/processtest -args -update'
//
// Nothing can be forgotten. Every function that changes something must be reached by a scenario or be listed as an
// exception. The same is true for every action, operation and kind of job of the planner. An exception names the test
// that covers it instead (see exceptions_test.go and transitions_test.go).
package processtest
